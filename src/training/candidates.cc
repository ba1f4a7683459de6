#include "training/candidates.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "neuron/neuron_set.h"
#include "tensor/codec.h"
#include "training/accuracy.h"
#include "training/low_rank.h"

namespace thermocline::training {
namespace {

std::vector<float> Decode(const pack::EncodedMatrix& matrix) {
  const size_t row_bytes = BytesOf(matrix.dtype, matrix.num_columns);
  std::vector<float> out(matrix.num_rows * matrix.num_columns);
  for (size_t i = 0; i < matrix.num_rows; ++i) {
    DequantizeRow(
        matrix.dtype, matrix.bytes.data() + i * row_bytes,
        std::span(out).subspan(i * matrix.num_columns, matrix.num_columns));
  }
  return out;
}

RoundedPredictor Decode(const pack::LayerPredictor& predictor) {
  LowRank values = {.width = predictor.up.num_columns,
                    .rank = predictor.up.num_rows,
                    .num_neurons = predictor.down.num_rows,
                    .up = Decode(predictor.up),
                    .up_bias = predictor.up_bias,
                    .down = Decode(predictor.down),
                    .down_bias = predictor.down_bias};
  values.up_bias.resize(values.rank);
  values.down_bias.resize(values.num_neurons);
  return {.values = std::move(values), .dtype = predictor.up.dtype};
}

// Whether an ascending set has a member in [begin, end).
bool AnyIn(const std::vector<uint32_t>& set, size_t begin, size_t end) {
  const auto first = std::ranges::lower_bound(set, begin);
  return first != set.end() && *first < end;
}

// The neurons that is_named(n) names, of the experts in which something fired.
template <typename IsNamed>
std::vector<uint32_t> NamedOf(const Neurons& neurons,
                              const std::vector<uint32_t>& fired,
                              IsNamed is_named) {
  std::vector<uint32_t> set;
  const size_t width = neurons.ffn_width();
  for (size_t first = 0; first < neurons.num_neurons; first += width) {
    if (neurons.num_experts > 1 && !AnyIn(fired, first, first + width)) {
      continue;
    }
    for (size_t n = first; n < first + width; ++n) {
      if (is_named(n)) set.push_back(static_cast<uint32_t>(n));
    }
  }
  return set;
}

std::vector<std::vector<uint32_t>> TrainedSets(
    const Gemm& gemm, const Neurons& neurons,
    const pack::LayerPredictor& trained, std::vector<float> inputs,
    const std::vector<std::vector<uint32_t>>& fired) {
  const RoundedPredictor predictor = Decode(trained);
  TC_CHECK(predictor.values.num_neurons == neurons.num_neurons);
  std::vector<float> scores(fired.size() * neurons.num_neurons);
  ComputeScores(gemm, predictor, inputs.data(), fired.size(), scores.data());
  std::vector<std::vector<uint32_t>> sets;
  for (size_t s = 0; s < fired.size(); ++s) {
    const float* row = &scores[s * neurons.num_neurons];
    sets.push_back(
        NamedOf(neurons, fired[s], [&](size_t n) { return row[n] >= 0.0f; }));
  }
  return sets;
}

// What the margin gives every neuron for every sample; empty without one.
std::vector<float> MarginScores(const Gemm& gemm, size_t num_neurons,
                                const pack::LayerTrainingFree& free,
                                const std::vector<float>& inputs,
                                size_t num_samples) {
  if (free.down.bytes.empty()) return {};
  const size_t rank = free.up.num_rows;
  const size_t width = free.up.num_columns;
  LowRank image = {.width = width,
                   .rank = rank,
                   .num_neurons = num_neurons,
                   .up = Decode(free.up),
                   .up_bias = {},
                   .down = Decode(free.down),
                   .down_bias = free.bias};
  image.down_bias.resize(num_neurons);
  std::vector<float> hidden(num_samples * rank);
  gemm.Multiply({inputs.data(), width},
                {image.up.data(), width, Op::kTransposed}, num_samples, rank,
                width, 0.0f, hidden.data(), rank);
  std::vector<float> scores(num_samples * num_neurons);
  ScoresOfHidden(gemm, image, hidden.data(), num_samples, scores.data());
  return scores;
}

std::vector<uint64_t> SignsOf(std::span<const float> x) {
  std::vector<uint64_t> words(neuron::WordsOf(x.size()));
  for (size_t i = 0; i < x.size(); ++i) {
    words[i / 64] |= static_cast<uint64_t>(x[i] < 0.0f) << i % 64;
  }
  return words;
}

std::vector<std::vector<uint32_t>> TrainingFreeSets(
    const Gemm& gemm, const Neurons& neurons,
    const pack::LayerTrainingFree& free, const std::vector<float>& inputs,
    const std::vector<std::vector<uint32_t>>& fired) {
  const size_t width = inputs.size() / fired.size();
  const std::vector<float> scores =
      MarginScores(gemm, neurons.num_neurons, free, inputs, fired.size());
  std::vector<std::vector<uint32_t>> sets;
  for (size_t s = 0; s < fired.size(); ++s) {
    const std::vector<uint64_t> signs =
        SignsOf(std::span(inputs).subspan(s * width, width));
    const auto is_named = [&](size_t n) {
      size_t num_differences = 0;
      for (size_t w = 0; w < signs.size(); ++w) {
        num_differences += static_cast<size_t>(
            std::popcount(free.signs[n * signs.size() + w] ^ signs[w]));
      }
      return num_differences <= free.max_differences &&
             (scores.empty() || scores[s * neurons.num_neurons + n] >= 0.0f);
    };
    sets.push_back(NamedOf(neurons, fired[s], is_named));
  }
  return sets;
}

}  // namespace

void AddCandidates(const Gemm& gemm, const Neurons& neurons,
                   pack::PreparedParts& parts) {
  const size_t lookahead = parts.lookahead;
  for (size_t i = 0; i < parts.self_test.size(); ++i) {
    pack::LayerSelfTest& test = parts.self_test[i];
    test.candidates.clear();
    test.free.clear();
    if (i < parts.predictors.size() && parts.predictors[i]) {
      test.candidates = TrainedSets(
          gemm, neurons, *parts.predictors[i],
          parts.self_test[i - std::min(i, lookahead)].inputs, test.fired);
    }
    if (i < parts.training_free.size() && parts.training_free[i]) {
      test.free = TrainingFreeSets(gemm, neurons, *parts.training_free[i],
                                   test.inputs, test.fired);
    }
  }
}

}  // namespace thermocline::training
