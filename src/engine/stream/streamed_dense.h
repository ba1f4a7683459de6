// The feed-forward block with all of its neurons, in products of matrices, of
// records that stay in the model's file.
#ifndef THERMOCLINE_ENGINE_STREAM_STREAMED_DENSE_H_
#define THERMOCLINE_ENGINE_STREAM_STREAMED_DENSE_H_

#include <memory>

#include "compute/matmul.h"
#include "engine/ffn/ffn_executor.h"
#include "engine/ffn/ffn_scratch.h"
#include "engine/ffn/neuron_ffn.h"
#include "engine/stream/streamed_store.h"
#include "model/config.h"
#include "model/model.h"

namespace thermocline::engine {

// All of it outlives the executor.
struct StreamedDenseParts {
  const model::FfnSpec* config = nullptr;
  const model::FfnWeights* weights = nullptr;
  StreamedStore* store = nullptr;
  // The next layer's; null behind the last, and of experts, where others know
  // which comes next.
  StreamedStore* next = nullptr;
  const compute::Compute* compute = nullptr;
  const FfnScratch* scratch = nullptr;
  // Generated rows leave alone whose opened gate is below (RestBelow), so that
  // the store learns whom a prompt's rows used; kNothingRests: nobody does.
  float rest_below = kNothingRests;
};

// What MakeDenseFfn computes, to the bit. Reads the layer whole, and while it
// computes the next one (PowerInfer-2 4.1.1): a batch takes as long as
// reading the model or as computing it, whichever is longer.
std::unique_ptr<FfnExecutor> MakeStreamedDense(const StreamedDenseParts& parts);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STREAM_STREAMED_DENSE_H_
