// A predictor of ours: two thin matrices with a ReLU between them, trained to
// say which neurons of an FFN will fire.
//   score = down relu(up x + up_bias) + down_bias;  candidate iff score >= 0
// Source: PowerInfer 5.1; the same form as DejaVu's and KAIROX's.
#ifndef THERMOCLINE_TRAINING_LOW_RANK_H_
#define THERMOCLINE_TRAINING_LOW_RANK_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "predictor/neuron_set.h"
#include "training/gemm.h"

namespace thermocline::training {

struct LowRank {
  size_t width = 0;              // D
  size_t rank = 0;               // R
  size_t num_neurons = 0;        // F
  std::vector<float> up;         // [R, D]
  std::vector<float> up_bias;    // [R]
  std::vector<float> down;       // [F, R]
  std::vector<float> down_bias;  // [F]

  // All zeros.
  static LowRank Zeros(size_t width, size_t rank, size_t num_neurons);
  bool operator==(const LowRank&) const = default;
};

// What a layer was seen to do: sample n is row n * step of each. Views.
struct Samples {
  size_t num_samples = 0;
  size_t width = 0;                  // D
  size_t num_neurons = 0;            // F
  const uint16_t* inputs = nullptr;  // [N, D] F16
  const uint64_t* fired = nullptr;   // [N, words()]; bit i % 64 of word i / 64
  size_t step = 1;
  float input_scale = 1.0f;  // what inputs are multiplied with

  size_t words() const { return predictor::WordsOf(num_neurons); }
  // Sample n's input as floats, scaled, to out [D].
  void LoadInput(size_t sample_idx, float* out) const;
  const uint64_t* fired_of(size_t sample_idx) const {
    return fired + sample_idx * step * words();
  }
  // `max_samples` of them at most, at even distances.
  Samples Thinned(size_t max_samples) const;
};

uint64_t CountFired(const Samples& samples);

// hidden [B, R] = relu(up x + up_bias) and scores [B, F], for x [B, D].
// Parallel inside; the same bits for every number of threads.
void Hidden(const Gemm& gemm, const LowRank& predictor, const float* x,
            size_t batch, float* hidden);
void ScoresOfHidden(const Gemm& gemm, const LowRank& predictor,
                    const float* hidden, size_t batch, float* scores);

}  // namespace thermocline::training

#endif  // THERMOCLINE_TRAINING_LOW_RANK_H_
