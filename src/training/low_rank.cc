#include "training/low_rank.h"

#include <algorithm>
#include <bit>

#include "base/math.h"
#include "tensor/float16.h"

namespace thermocline::training {

LowRank LowRank::Zeros(size_t width, size_t rank, size_t num_neurons) {
  return {.width = width,
          .rank = rank,
          .num_neurons = num_neurons,
          .up = std::vector<float>(rank * width),
          .up_bias = std::vector<float>(rank),
          .down = std::vector<float>(num_neurons * rank),
          .down_bias = std::vector<float>(num_neurons)};
}

Neurons NeuronsOf(const model::Config& config) {
  const size_t num_neurons = NeuronsPerLayer(config);
  const model::FfnSpec& ffn = CommonFfn(config);
  if (ffn.num_experts == 0) return {.num_neurons = num_neurons};
  return {.num_neurons = num_neurons,
          .num_experts = ffn.num_experts,
          .num_used = ffn.num_experts_used};
}

bool Samples::Uses(size_t sample_idx, size_t expert_idx) const {
  if (experts == nullptr) return true;
  const uint64_t* row =
      experts + sample_idx * step * neuron::WordsOf(num_experts);
  return (row[expert_idx / 64] >> (expert_idx % 64) & 1) != 0;
}

void Samples::LoadInput(size_t sample_idx, float* out) const {
  const uint16_t* row = inputs + sample_idx * step * width;
  for (size_t i = 0; i < width; ++i) out[i] = input_scale * F16ToF32(row[i]);
}

Samples Samples::Thinned(size_t max_samples) const {
  Samples out = *this;
  if (num_samples <= max_samples) return out;
  const size_t factor = CeilDiv(num_samples, max_samples);
  out.step = step * factor;
  out.num_samples = num_samples / factor;
  return out;
}

uint64_t CountFired(const Samples& samples) {
  uint64_t num_fired = 0;
  for (size_t n = 0; n < samples.num_samples; ++n) {
    for (const uint64_t word :
         std::span(samples.fired_of(n), samples.words())) {
      num_fired += static_cast<uint64_t>(std::popcount(word));
    }
  }
  return num_fired;
}

void Hidden(const Gemm& gemm, const LowRank& predictor, const float* x,
            size_t batch, float* hidden) {
  const size_t rank = predictor.rank;
  gemm.Multiply({x, predictor.width},
                {predictor.up.data(), predictor.width, Op::kTransposed}, batch,
                rank, predictor.width, 0.0f, hidden, rank);
  for (size_t row = 0; row < batch; ++row) {
    float* out = hidden + row * rank;
    for (size_t i = 0; i < rank; ++i) {
      out[i] = std::max(out[i] + predictor.up_bias[i], 0.0f);
    }
  }
}

void ScoresOfHidden(const Gemm& gemm, const LowRank& predictor,
                    const float* hidden, size_t batch, float* scores) {
  const size_t num_neurons = predictor.num_neurons;
  for (size_t row = 0; row < batch; ++row) {
    std::ranges::copy(predictor.down_bias, scores + row * num_neurons);
  }
  gemm.Multiply({hidden, predictor.rank},
                {predictor.down.data(), predictor.rank, Op::kTransposed}, batch,
                num_neurons, predictor.rank, 1.0f, scores, num_neurons);
}

}  // namespace thermocline::training
