// Mean and spread of the inputs that a layer was seen to read.
#ifndef THERMOCLINE_TRAINING_INPUT_MOMENTS_H_
#define THERMOCLINE_TRAINING_INPUT_MOMENTS_H_

#include <cstddef>
#include <vector>

#include "training/gemm.h"
#include "training/low_rank.h"

namespace thermocline::training {

// Samples whose inputs are held as floats at once, where products of them are
// summed.
inline constexpr size_t kMomentBatch = 512;

// Of samples' inputs, scaled as Samples say.
struct InputMoments {
  std::vector<float> mean;        // [D]
  std::vector<float> covariance;  // [D, D]
};
InputMoments ComputeMoments(const Gemm& gemm, const Samples& samples);

// The number that makes the inputs' mean square 1. That of `samples` if they
// are all 0.
float UnitScale(const Samples& samples);

}  // namespace thermocline::training

#endif  // THERMOCLINE_TRAINING_INPUT_MOMENTS_H_
