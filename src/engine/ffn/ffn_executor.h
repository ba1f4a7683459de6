// How one layer's feed-forward block is computed.
#ifndef THERMOCLINE_ENGINE_FFN_FFN_EXECUTOR_H_
#define THERMOCLINE_ENGINE_FFN_FFN_EXECUTOR_H_

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "compute/rows.h"
#include "engine/batch.h"
#include "engine/ffn/ffn_observer.h"
#include "neuron/active_sets.h"

namespace thermocline::engine {

// Where in a layer an executor may choose neurons.
enum class SelectAt : uint8_t {
  kLayerInput,  // before attention
  kFfnInput,    // before the FFN
};

// Rows of one phase.
struct FfnCall {
  Phase phase = Phase::kPrompt;
  size_t num_rows = 0;
  // [T, D] the stream: at kLayerInput the layer's input, at kFfnInput and in
  // Run what was normed for the FFN (in a parallel block the layer's input,
  // without attention's output, which Run finds added).
  compute::Rows stream;
  compute::Rows normed;  // [T, D] what Run reads; at kLayerInput without data
  compute::Rows out;     // [T, D] what Run adds to the stream
  // Of this layer, and of the next one, for executors that look ahead.
  neuron::ActiveSets sets, next_sets;
  SparseTotals* totals = nullptr;  // null: nobody counts
};

// One or more per layer, made when the model opens, chosen by phase. The layer
// loop never asks which kind it is. Called by one thread; parallel inside;
// allocates nothing.
class FfnExecutor {
 public:
  virtual ~FfnExecutor() = default;

  // Chooses neurons from what there is, and may start to read them; never waits
  // for them. Called once at each place, in their order, before Run. kCorrupt:
  // a predictor's numbers are not finite, the layer named.
  virtual Status Select(const FfnCall& /*call*/, SelectAt /*at*/) { return {}; }

  // From call.normed to call.out. Writes call.sets, where they are recorded.
  // kIo: a neuron could not be read.
  virtual Status Run(const FfnCall& call) = 0;

  // After Run with recorded sets: FfnObservation::gate of its rows, [T, F] or
  // [T, U * F]; no data if not all gates were computed, or some where records
  // on a device keep them.
  virtual compute::Rows gate() const { return {}; }
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_FFN_EXECUTOR_H_
