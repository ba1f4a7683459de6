// What of a model stays in its file, by its unit.
#ifndef THERMOCLINE_ENGINE_STREAM_MODEL_STREAM_H_
#define THERMOCLINE_ENGINE_STREAM_MODEL_STREAM_H_

#include <memory>

#include "base/status.h"
#include "engine/stream/expert_stream.h"
#include "engine/stream/layer_stream.h"
#include "engine/stream/record_stream.h"
#include "engine/stream/weight_stream.h"
#include "model/model.h"

namespace thermocline::engine {

// One of them, or none where all is in memory.
struct ModelStream {
  std::unique_ptr<RecordStream> records;
  std::unique_ptr<ExpertStream> experts;
  std::unique_ptr<LayerStream> layers;

  // Errors of the stream's Create.
  static Result<ModelStream> Create(const model::Model& model,
                                    const StreamOptions& options);
  WeightStream* any() const;
  // A pass over all layers is over, also one that failed.
  void EndPass() const;
  // LivePolicy::set_rests, where there is one.
  void SetPolicyRests(bool rests) const;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STREAM_MODEL_STREAM_H_
