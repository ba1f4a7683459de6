// One layer's predictor: its rank, its training, its threshold, its type.
#ifndef THERMOCLINE_TRAINING_FIT_H_
#define THERMOCLINE_TRAINING_FIT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/status.h"
#include "pack/parts.h"
#include "tensor/dtype.h"
#include "tensor/tensor_view.h"
#include "training/accuracy.h"
#include "training/gemm.h"
#include "training/low_rank.h"
#include "training/start.h"

namespace thermocline::training {

// A predictor's bytes at most, as a share of those of its FFN.
inline constexpr double kMaxBytesShare = 0.10;

struct FitOptions {
  RecallGoal goal;
  double max_bytes_share = kMaxBytesShare;
  size_t num_steps = 800;  // of the training that counts
  uint64_t seed = 0;
  const std::atomic<bool>* cancel = nullptr;
  // Steps done, of all that may come; anew where a predictor of 16 bits has to
  // be trained after all.
  std::function<void(size_t num_done, size_t num_total)> progress;
};

// What a layer's predictors are made from. All samples are scaled alike.
struct FitData {
  Samples train;
  Samples held_out;
  Gate gate;               // for the inputs of `train`
  uint64_t ffn_bytes = 0;  // of the matrices of one FFN
  double skew = 1.0;       // neuron::LayerProfile::skew()
};

// One rank that was tried.
struct RankTrial {
  size_t rank = 0;
  double candidates_per_fired = 0;  // at goal.recall_floor
};

struct FittedPredictor {
  // Absent: nothing that is worth its bytes; `reason` says why.
  std::optional<pack::LayerPredictor> predictor;
  const char* reason = "";
  size_t rank = 0;
  DType dtype = DType::kF16;
  uint64_t num_bytes = 0;  // that one FFN reads
  Accuracy accuracy;       // over held_out; what fired even without one
  std::vector<RankTrial> trials;
};

// Bytes of a predictor's matrices and biases, for `num_neurons` of its neurons.
uint64_t PredictorBytes(size_t width, size_t rank, size_t num_neurons,
                        DType dtype);

// What a predictor's matrices are tried in first: rows of 8 bits are whole
// blocks.
DType SmallestType(size_t width);

// The largest rank within `max_bytes` that the blocks of `dtype` and the widths
// allow; 0 if there is none.
size_t MaxRank(size_t width, size_t num_neurons, DType dtype,
               uint64_t max_bytes);

// Adaptive rank: begins with a share of the largest rank that grows with the
// layer's density and with how evenly its activations are spread, tries it with
// a short training, and shrinks it while the goal holds, or grows it while it
// does not; then trains that rank in full, rounds it to 8 bits, and folds the
// threshold in. 16-bit weights where 8 do not divide the rows or cost recall.
// The same data, options and machine give the same bits.
// kCancelled. Cost: the full training and a sixth of it for each trial; where
// 16 bits allow fewer ranks only, another full one. Source: PowerInfer 5.1.
// Differs: what decides is not accuracy below 95 % but whether the recall is
// had with few enough candidates, which is what costs time and which a
// threshold alone cannot buy.
Result<FittedPredictor> FitPredictor(const Gemm& gemm, const FitData& data,
                                     const FitOptions& options);

// How the recall falls when the same form of predictor, of the same rank and
// with as many candidates, reads an earlier layer's input: trained for
// num_steps from its own start. data.gate is made by LookAhead.
Result<Accuracy> MeasureAhead(const Gemm& gemm, const FitData& data,
                              size_t rank, double candidates_per_fired,
                              const FitOptions& options);

}  // namespace thermocline::training

#endif  // THERMOCLINE_TRAINING_FIT_H_
