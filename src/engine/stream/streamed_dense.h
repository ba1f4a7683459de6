// The feed-forward block with all of its neurons, in products of matrices, of
// records that stay in the model's file.
#ifndef THERMOCLINE_ENGINE_STREAM_STREAMED_DENSE_H_
#define THERMOCLINE_ENGINE_STREAM_STREAMED_DENSE_H_

#include <memory>

#include "compute/matmul.h"
#include "engine/ffn/ffn_executor.h"
#include "engine/ffn/ffn_scratch.h"
#include "engine/stream/streamed_store.h"
#include "model/config.h"
#include "model/model.h"

namespace thermocline::engine {

// What MakeDenseFfn computes, to the bit. Reads the layer whole, and while it
// computes the next one (PowerInfer-2 4.1.1): a batch takes as long as
// reading the model or as computing it, whichever is longer.
// next: the next layer's store; null behind the last, and of experts, where
// others know which comes next. All outlives it.
std::unique_ptr<FfnExecutor> MakeStreamedDense(const model::FfnSpec* config,
                                               const model::FfnWeights* weights,
                                               StreamedStore* store,
                                               StreamedStore* next,
                                               const compute::Compute* compute,
                                               const FfnScratch* scratch);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STREAM_STREAMED_DENSE_H_
