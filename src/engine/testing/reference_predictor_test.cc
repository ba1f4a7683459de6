#include "engine/testing/reference_predictor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/testing/tiny_model.h"
#include "tensor/codec.h"

namespace thermocline::engine::testing {
namespace {

using Vector = std::vector<double>;

Vector DoublesOfRow(const TensorView& tensor, size_t row_idx) {
  std::vector<float> floats(tensor.shape.ne[0]);
  DequantizeRow(tensor.dtype, tensor.row(row_idx), floats);
  return Vector(floats.begin(), floats.end());
}

Vector Affine(const TensorView& weight, const TensorView& bias,
              std::span<const double> x) {
  Vector out = bias ? DoublesOfRow(bias, 0) : Vector(weight.shape.num_rows());
  for (size_t r = 0; r < out.size(); ++r) {
    const Vector row = DoublesOfRow(weight, r);
    for (size_t i = 0; i < x.size(); ++i) out[r] += row[i] * x[i];
  }
  return out;
}

Vector Scores(const model::PredictorWeights& weights,
              std::span<const double> x) {
  Vector hidden = Affine(weights.up, weights.up_bias, x);
  for (double& value : hidden) value = std::max(value, 0.0);
  return Affine(weights.down, weights.down_bias, hidden);
}

double Sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

bool IsActive(const model::PredictorConfig& config, double score) {
  const double threshold = config.threshold;
  if (config.kind == model::PredictorKind::kKairox) {
    return !(Sigmoid(score) < Sigmoid(threshold));
  }
  return !(score < threshold);
}

// Remembers the inputs of the layer before.
struct Masks {
  const model::Model& model;
  PredictorInput input;
  MaskedReference& out;
  Vector last_stream;
  Vector last_normed;
  int64_t position = -1;

  std::vector<bool> Next(size_t layer_idx, const Vector& stream,
                         const Vector& normed) {
    if (layer_idx == 0) ++position;
    const Vector x = InputOf(layer_idx, stream, normed);
    last_stream = stream;
    last_normed = normed;
    const auto& weights = model.weights().layers[layer_idx].predictor;
    if (!weights.up) return {};
    const Vector scores = Scores(weights, x);
    out.scores[{layer_idx, position}] = scores;
    std::vector<bool> mask;
    for (const double score : scores) {
      mask.push_back(IsActive(model.config().predictor, score));
    }
    return mask;
  }

  Vector InputOf(size_t layer_idx, const Vector& stream,
                 const Vector& normed) const {
    if (model.config().predictor.kind == model::PredictorKind::kPowerInfer) {
      return input == PredictorInput::kNormed ? normed : stream;
    }
    if (layer_idx == 0 || input == PredictorInput::kOwnLayer) return normed;
    return input == PredictorInput::kUnnormed ? last_stream : last_normed;
  }
};

}  // namespace

MaskedReference RunMaskedReference(const model::Model& model,
                                   std::span<const text::TokenId> tokens,
                                   PredictorInput input) {
  MaskedReference out;
  Masks masks = {model, input, out, {}, {}};
  out.logits = ReferenceLogits(
      model.config(), model.weights(), tokens, Mistake::kNone,
      [&](size_t layer_idx, std::span<const double> stream,
          std::span<const double> normed) {
        return masks.Next(layer_idx, {stream.begin(), stream.end()},
                          {normed.begin(), normed.end()});
      });
  return out;
}

void ExpectActiveSets(const ActiveSets& sets, const MaskedReference& reference,
                      double threshold, double margin) {
  ASSERT_EQ(sets.size(), reference.scores.size());
  for (const auto& [place, scores] : reference.scores) {
    SCOPED_TRACE(::testing::Message()
                 << "layer " << place.first << ", position " << place.second);
    ASSERT_TRUE(sets.contains(place));
    const std::vector<uint32_t>& active = sets.at(place);
    EXPECT_TRUE(std::ranges::is_sorted(active));
    for (uint32_t i = 0; i < scores.size(); ++i) {
      if (std::abs(scores[i] - threshold) < margin) continue;
      ASSERT_EQ(std::ranges::binary_search(active, i), scores[i] >= threshold)
          << "neuron " << i << ", score " << scores[i];
    }
  }
}

namespace {

// With scores that are biases alone, the active set is known.
TEST(ReferencePredictor, MasksByScore) {
  TinySpec spec;
  spec.down_t = true;
  spec.predictor_rank = 8;
  spec.edit = [](const std::string& name, std::span<float> values) {
    if (name.ends_with("ffn_pred_down.weight")) {
      std::ranges::fill(values, 0.0f);
    } else if (name.ends_with("ffn_pred_down.bias")) {
      std::ranges::fill(values, -1.0f);
      values[3] = 0.0f;
      values[7] = 0.5f;
    }
  };
  const auto model = MakeTinyModel(spec);
  ASSERT_NE(model, nullptr);
  const auto tokens = RandomTokens(2, spec.vocab_size);
  const MaskedReference masked = RunMaskedReference(*model, tokens);
  EXPECT_EQ(masked.scores.size(), 4u);
  ActiveSets sets;
  for (const auto& [place, scores] : masked.scores) sets[place] = {3, 7};
  ExpectActiveSets(sets, masked, 0.0, 1e-9);
  const auto dense = ReferenceLogits(*model, tokens);
  double difference = 0.0;
  for (size_t i = 0; i < dense.size(); ++i) {
    difference += std::abs(dense[i] - masked.logits[i]);
  }
  EXPECT_GT(difference, 0.1);
}

}  // namespace
}  // namespace thermocline::engine::testing
