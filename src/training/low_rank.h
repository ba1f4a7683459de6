// A predictor of ours: two thin matrices with a ReLU between them, trained to
// say which neurons of an FFN will fire.
//   score = down relu(up x + up_bias) + down_bias;  candidate iff score >= 0
// One speaks of all neurons of a layer; of a mixture's, only the scores of the
// experts that a token uses mean anything, and no others are trained or
// counted. Source: PowerInfer 5.1; the same form as DejaVu's and KAIROX's.
#ifndef THERMOCLINE_TRAINING_LOW_RANK_H_
#define THERMOCLINE_TRAINING_LOW_RANK_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/config.h"
#include "neuron/neuron_set.h"
#include "training/gemm.h"

namespace thermocline::training {

struct LowRank {
  size_t width = 0;              // D
  size_t rank = 0;               // R
  size_t num_neurons = 0;        // N
  std::vector<float> up;         // [R, D]
  std::vector<float> up_bias;    // [R]
  std::vector<float> down;       // [N, R]
  std::vector<float> down_bias;  // [N]

  // All zeros.
  static LowRank Zeros(size_t width, size_t rank, size_t num_neurons);
  bool operator==(const LowRank&) const = default;
};

// The neurons of a layer: of E experts, of which a token uses U; E = U = 1
// without experts.
struct Neurons {
  size_t num_neurons = 0;  // N = E * F
  size_t num_experts = 1;  // E
  size_t num_used = 1;     // U

  size_t ffn_width() const { return num_neurons / num_experts; }  // F
  size_t used_neurons() const { return num_used * ffn_width(); }
  bool operator==(const Neurons&) const = default;
};
Neurons NeuronsOf(const model::Config& config);

// Of the neurons that tokens go through, from the density of all.
inline double DensityOfUsed(double density, const Neurons& neurons) {
  return density * static_cast<double>(neurons.num_experts) /
         static_cast<double>(neurons.num_used);
}

// What a layer was seen to do: sample s is row s * step of each. Views.
struct Samples : Neurons {
  size_t num_samples = 0;
  size_t width = 0;                  // D
  const uint16_t* inputs = nullptr;  // [S, D] F16
  const uint64_t* fired = nullptr;   // [S, words()]; bit i % 64 of word i / 64
  // [S, WordsOf(E)]: the experts in use, likewise. Null without experts.
  const uint64_t* experts = nullptr;
  size_t step = 1;
  float input_scale = 1.0f;  // what inputs are multiplied with

  size_t words() const { return neuron::WordsOf(num_neurons); }
  // Whether sample `sample_idx` goes through the expert.
  bool Uses(size_t sample_idx, size_t expert_idx) const;
  // Calls f(first, end) for the neurons of each expert in use, in order.
  template <typename Function>
  void ForEachUsed(size_t sample_idx, Function f) const {
    for (size_t e = 0; e < num_experts; ++e) {
      if (Uses(sample_idx, e)) f(e * ffn_width(), (e + 1) * ffn_width());
    }
  }
  // Sample n's input as floats, scaled, to out [D].
  void LoadInput(size_t sample_idx, float* out) const;
  const uint64_t* fired_of(size_t sample_idx) const {
    return fired + sample_idx * step * words();
  }
  // `max_samples` of them at most, at even distances.
  Samples Thinned(size_t max_samples) const;
};

uint64_t CountFired(const Samples& samples);

// hidden [B, R] = relu(up x + up_bias) and scores [B, N], for x [B, D].
// Parallel inside; the same bits for every number of threads.
void Hidden(const Gemm& gemm, const LowRank& predictor, const float* x,
            size_t batch, float* hidden);
void ScoresOfHidden(const Gemm& gemm, const LowRank& predictor,
                    const float* hidden, size_t batch, float* scores);

}  // namespace thermocline::training

#endif  // THERMOCLINE_TRAINING_LOW_RANK_H_
