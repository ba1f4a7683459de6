#include "training/candidates.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
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

}  // namespace

void AddCandidates(const Gemm& gemm, const Neurons& neurons,
                   pack::PreparedParts& parts) {
  const auto lookahead = static_cast<size_t>(parts.lookahead);
  for (size_t i = 0; i < parts.predictors.size(); ++i) {
    pack::LayerSelfTest& test = parts.self_test[i];
    test.candidates.clear();
    if (!parts.predictors[i]) continue;
    const RoundedPredictor predictor = Decode(*parts.predictors[i]);
    std::vector<float> inputs =
        parts.self_test[i - std::min(i, lookahead)].inputs;
    const size_t count = test.fired.size();
    const size_t num_neurons = neurons.num_neurons;
    const size_t ffn_width = neurons.ffn_width();
    TC_CHECK(predictor.values.num_neurons == num_neurons);
    std::vector<float> scores(count * num_neurons);
    ComputeScores(gemm, predictor, inputs.data(), count, scores.data());
    for (size_t s = 0; s < count; ++s) {
      std::vector<uint32_t>& set = test.candidates.emplace_back();
      for (size_t first = 0; first < num_neurons; first += ffn_width) {
        if (neurons.num_experts > 1 &&
            !AnyIn(test.fired[s], first, first + ffn_width)) {
          continue;
        }
        for (size_t n = first; n < first + ffn_width; ++n) {
          if (scores[s * num_neurons + n] >= 0.0f) {
            set.push_back(static_cast<uint32_t>(n));
          }
        }
      }
    }
  }
}

}  // namespace thermocline::training
