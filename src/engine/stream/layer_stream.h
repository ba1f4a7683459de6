// Layers that stay in the model's file: their matrices are read one layer after
// the other, the next ones under the products of this one.
#ifndef THERMOCLINE_ENGINE_STREAM_LAYER_STREAM_H_
#define THERMOCLINE_ENGINE_STREAM_LAYER_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/stream/weight_stream.h"
#include "gguf/gguf.h"
#include "model/config.h"
#include "model/model.h"

namespace thermocline::engine {

// The matrices of as many layers, spread evenly, as have to stay so that what
// is kept of all layers and the slots take at most `room` bytes.
std::vector<std::string> LayerTensors(const gguf::File& file,
                                      const model::Config& config,
                                      uint64_t room);
LeftWeights LeftLayers(const gguf::File& file, const model::Config& config,
                       std::span<const std::string> names);
BlockPlan PlanLayerSlots(const LeftWeights& left, uint64_t room);

class LayerStream final : public WeightStream {
 public:
  // Of a model that layers were left of. Errors as of RecordStream::Create.
  static Result<std::unique_ptr<LayerStream>> Create(
      const model::Model& model, const StreamOptions& options);

  // The model with left matrices where they will lie (model::Model::PlacedAt).
  const std::shared_ptr<const model::Model>& model() const { return model_; }

  // Before a layer runs: waits for its matrices. kIo.
  Status Await(size_t layer_idx);
  // Behind it: its slot is free for the next that has it.
  void Leave(size_t layer_idx);
  // A pass is over, also one that failed or was cancelled.
  void EndPass();

  const storage::BlockReader& reader() const override { return *reader_; }
  const StreamTotals::OfPhase& counts() const override { return counts_; }
  std::string Describe() const override;

 private:
  std::shared_ptr<const model::Model> model_;
  std::unique_ptr<storage::BlockReader> reader_;
  StreamTotals::OfPhase counts_;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STREAM_LAYER_STREAM_H_
