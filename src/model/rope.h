// Angles of rotary position embeddings.
#ifndef THERMOCLINE_MODEL_ROPE_H_
#define THERMOCLINE_MODEL_ROPE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/config.h"

namespace thermocline::model {

// theta_i(pos) = pos * base^(-2i/n) / freq_factor_i, then scaled: linear
// divides by the factor, YaRN (Peng et al. 2023) blends per dimension between
// that and the unscaled angle and raises the magnitude by 0.1 ln(factor) + 1.
// Immutable.
class RopeTable {
 public:
  // freq_factors: empty, or width / 2 finite non-zero numbers (rope_freqs).
  RopeTable(const RopeConfig& config, std::span<const float> freq_factors);

  size_t num_pairs() const { return freqs_.size(); }

  // Writes num_pairs() cosines and sines, magnitude included.
  void Angles(int64_t position, float* cos, float* sin) const;

 private:
  std::vector<double> freqs_;  // angle per position
  float magnitude_ = 1.0f;
};

}  // namespace thermocline::model

#endif  // THERMOCLINE_MODEL_ROPE_H_
