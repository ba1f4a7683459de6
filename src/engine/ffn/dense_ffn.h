// The feed-forward block as plain matrix products.
#ifndef THERMOCLINE_ENGINE_FFN_DENSE_FFN_H_
#define THERMOCLINE_ENGINE_FFN_DENSE_FFN_H_

#include <memory>

#include "engine/ffn/ffn_executor.h"
#include "engine/matmul.h"
#include "engine/scratch.h"
#include "model/config.h"
#include "model/model.h"

namespace thermocline::engine {

// delta = Wdown h + bdown, where
//   gated   h = f(Wgate x + bgate) * (Wup x + bup)
//   plain   h = f(Wup x + bup)
// A file that has only Wdown transposed runs too.
// The arguments outlive the executor.
std::unique_ptr<FfnExecutor> MakeDenseFfn(const model::FfnConfig* config,
                                          const model::FfnWeights* weights,
                                          const Compute* compute,
                                          const Scratch* scratch);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_DENSE_FFN_H_
