// One layer's predictor that needs no training: the signs of the gate rows,
// then the margin of a low-rank image of the gate.
#ifndef THERMOCLINE_TRAINING_TRAINING_FREE_FIT_H_
#define THERMOCLINE_TRAINING_TRAINING_FREE_FIT_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/kernels.h"
#include "pack/parts.h"
#include "training/accuracy.h"
#include "training/fit.h"
#include "training/gemm.h"
#include "training/start.h"

namespace thermocline::training {

struct TrainingFreeOptions {
  RecallGoal goal;
  double max_bytes_share = kMaxBytesShare;  // signs included
  uint64_t seed = 0;
  const kernels::KernelTable* kernels = nullptr;
};

struct FittedTrainingFree {
  std::optional<pack::LayerTrainingFree> predictor;  // absent: it is useless
  size_t rank = 0;                                   // 0: signs alone
  uint64_t num_sign_bytes = 0;                       // that one FFN reads
  uint64_t num_margin_bytes = 0;                     // likewise
  Accuracy signs;                                    // of the first step alone
  Accuracy accuracy;                                 // of both
};

// max_differences is the least with which the signs lose no more than half of
// what the goal allows; the margin's threshold, folded into its bias, does the
// rest. Both are calibrated on data.held_out, and nothing is trained. What of
// the gate's bias signs cannot see, the margin does.
// Requires options.kernels and a width below 65536 (CHECKed).
// Cost: counting differences of at most 2048 samples, and one FitImage.
// Source: signs are SparseInfer (2411.12692); the margin is the truncated
// factorisation of the gate, weighted by the inputs' covariance (2603.14110).
FittedTrainingFree FitTrainingFree(const Gemm& gemm, const FitData& data,
                                   const TrainingFreeOptions& options);

}  // namespace thermocline::training

#endif  // THERMOCLINE_TRAINING_TRAINING_FREE_FIT_H_
