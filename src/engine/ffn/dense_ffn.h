// The feed-forward block with all of its neurons, in plain products.
#ifndef THERMOCLINE_ENGINE_FFN_DENSE_FFN_H_
#define THERMOCLINE_ENGINE_FFN_DENSE_FFN_H_

#include <memory>

#include "compute/matmul.h"
#include "engine/ffn/ffn_executor.h"
#include "engine/ffn/ffn_scratch.h"
#include "model/config.h"
#include "model/model.h"

namespace thermocline::engine {

// out = Wdown h + bdown, where
//   gated   h = f(Wgate x + bgate) * (Wup x + bup)
//   plain   h = f(Wup x + bup)
// A file that has only Wdown transposed runs too. Without experts. The
// arguments outlive the executor.
std::unique_ptr<FfnExecutor> MakeDenseFfn(const model::FfnSpec* config,
                                          const model::FfnWeights* weights,
                                          const compute::Compute* compute,
                                          const FfnScratch* scratch);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_DENSE_FFN_H_
