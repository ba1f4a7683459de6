// Layers that stay in the model's file: their matrices are read one layer after
// the other, the next ones under the products of this one.
//
// PowerInfer-2 4.1.1, of dense models and of generated tokens too.
#ifndef THERMOCLINE_ENGINE_STREAM_LAYER_STREAM_H_
#define THERMOCLINE_ENGINE_STREAM_LAYER_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "compute/matmul.h"
#include "engine/stream/block_layout.h"
#include "engine/stream/read_queue.h"
#include "engine/stream/weight_stream.h"
#include "gguf/gguf.h"
#include "model/config.h"
#include "model/model.h"
#include "os/memory.h"

namespace thermocline::engine {

// The matrices of as many layers, spread evenly, as have to stay so that what
// is kept of all layers and the slots take at most `room` bytes; of those that
// take least where that is too little.
std::vector<std::string> LayerTensors(const gguf::File& file,
                                      const model::Config& config,
                                      uint64_t room);
LeftWeights LeftLayers(const gguf::File& file, const model::Config& config,
                       std::span<const std::string> names);
// Two, so that one is read to while the other is computed with; more where
// `room` has them, up to one for each layer that stays.
BlockPlan PlanLayerSlots(const LeftWeights& left, uint64_t room);

// The k-th layer that stays has slot k % num_slots(): its matrices lie at one
// address all the time. Slots go round, each through its own layers, by itself:
// as soon as one is free, the next of its layers is on its way, behind the last
// one the first, for the pass that follows.
class LayerStream final : public WeightStream, private ReadQueue::Owner {
 public:
  // Of a model that layers were left of. Errors as of RecordStream::Create.
  static Result<std::unique_ptr<LayerStream>> Create(
      const model::Model& model, const StreamOptions& options);

  // The model with left matrices where they will lie (model::Model::PlacedAt).
  const std::shared_ptr<const model::Model>& model() const { return model_; }
  // Whether it is one of those that stay in the file.
  bool IsLeft(size_t layer_idx) const { return places_[layer_idx] != kNobody; }

  // Before a layer runs, in their order from the first on: waits for its
  // matrices, which is a stage of `compute`. kIo, naming file and layer: they
  // could not be read; the next pass tries again.
  Status Await(size_t layer_idx, const compute::Compute& compute);
  // Behind it: its slot is free for the next that has it.
  void Leave(size_t layer_idx);
  // A pass is over, also one that failed or was cancelled.
  void EndPass() { is_in_pass_ = false; }

  const storage::BlockReader& reader() const override {
    return queue_.reader();
  }
  // Layers and what they had to read, once they are waited for.
  const StreamTotals::OfPhase& counts() const override { return counts_; }
  std::string Describe() const override;
  StreamUnit unit() const override { return StreamUnit::kLayers; }

 private:
  static constexpr size_t kNobody = std::numeric_limits<size_t>::max();

  // Of a layer that stays.
  struct LeftLayer {
    size_t layer_idx = 0;
    BlockLayout layout;
    std::vector<const gguf::TensorInfo*> tensors;  // a span each
  };
  struct RingSlot {
    std::byte* data = nullptr;
    size_t holds = kNobody;  // whose bytes are there, or on their way
    size_t num_reading = 0;
    uint64_t num_reads = 0;      // that brought them
    bool is_counted = true;      // in counts_
    std::optional<Error> error;  // of one of the reads
  };

  LayerStream(const BlockPlan& plan, os::AlignedBuffer memory,
              std::vector<LeftLayer> left,
              std::unique_ptr<storage::BlockReader> reader);
  // The rest of construction, which can fail.
  Status Place(const model::Model& model);

  void OnRead(uint32_t number, const Status& status) override;
  RingSlot& SlotOf(size_t left_idx) { return slots_[left_idx % slots_.size()]; }
  // Brings each slot to the first of its layers.
  void BeginPass();
  // Begins to read a layer to its slot, which nothing is on its way to.
  void Start(size_t left_idx);
  void Settle(RingSlot& slot);

  BlockPlan plan_;
  os::AlignedBuffer memory_;
  std::vector<LeftLayer> left_;
  std::vector<size_t> places_;  // [L] in left_, or kNobody
  std::shared_ptr<const model::Model> model_;
  uint64_t resident_bytes_ = 0;  // of matrices of layers that do not stay
  bool is_in_pass_ = false;
  size_t piece_bytes_ = 0;
  uint32_t most_pieces_ = 0;  // of a slot
  StreamTotals::OfPhase counts_;
  std::vector<storage::Read> reads_;  // being begun
  std::vector<RingSlot> slots_;
  ReadQueue queue_;  // last: waits for what the kernel still has
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STREAM_LAYER_STREAM_H_
