#include "engine/testing/reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/testing/tiny_model.h"
#include "tensor/codec.h"

namespace thermocline::engine::testing {
namespace {

using Vector = std::vector<double>;

Vector RowOf(const TensorView& tensor, size_t row_idx) {
  std::vector<float> floats(tensor.shape.ne[0]);
  DequantizeRow(tensor.dtype, tensor.row(row_idx), floats);
  return Vector(floats.begin(), floats.end());
}

Vector Multiply(const TensorView& weight, const TensorView& bias,
                const Vector& x) {
  Vector out(weight.shape.num_rows());
  const Vector offsets = bias ? RowOf(bias, 0) : Vector(out.size(), 0.0);
  for (size_t r = 0; r < out.size(); ++r) {
    const Vector row = RowOf(weight, r);
    out[r] = offsets[r];
    for (size_t i = 0; i < x.size(); ++i) out[r] += row[i] * x[i];
  }
  return out;
}

Vector RmsNorm(const TensorView& weight, double epsilon, const Vector& x) {
  double mean_square = 0.0;
  for (const double value : x) mean_square += value * value;
  mean_square /= static_cast<double>(x.size());
  Vector out = RowOf(weight, 0);
  for (size_t i = 0; i < x.size(); ++i) {
    out[i] *= x[i] / std::sqrt(mean_square + epsilon);
  }
  return out;
}

void Rotate(const model::Model& model, double position, Vector& heads) {
  const model::RopeConfig& rope = model.config().rope;
  const auto& factors = model.weights().rope_freq_factors;
  const auto head_width = static_cast<size_t>(model.config().key_width);
  const int num_pairs = rope.width / 2;
  const double magnitude = ReferenceMagnitude(rope);
  for (size_t head = 0; head < heads.size(); head += head_width) {
    for (int pair = 0; pair < num_pairs; ++pair) {
      const auto i = static_cast<size_t>(pair);
      const double factor = factors.empty() ? 1.0 : factors[i];
      const double angle = ReferenceAngle(rope, factor, pair, position);
      const bool neox = rope.kind == RopeKind::kNeox;
      double& a = heads[head + (neox ? i : 2 * i)];
      double& b =
          heads[head + (neox ? i + static_cast<size_t>(num_pairs) : 2 * i + 1)];
      const double x = a * magnitude;
      const double y = b * magnitude;
      a = x * std::cos(angle) - y * std::sin(angle);
      b = x * std::sin(angle) + y * std::cos(angle);
    }
  }
}

// Attention of one token over keys and values [position][all heads].
Vector Attend(const model::Config& config, const Vector& q,
              const std::vector<Vector>& keys,
              const std::vector<Vector>& values) {
  const auto k_width = static_cast<size_t>(config.key_width);
  const auto v_width = static_cast<size_t>(config.value_width);
  const auto num_heads = static_cast<size_t>(config.num_heads);
  const size_t group = num_heads / static_cast<size_t>(config.num_kv_heads);
  Vector out(num_heads * v_width, 0.0);
  for (size_t head = 0; head < num_heads; ++head) {
    const size_t kv_head = head / group;
    Vector scores(keys.size(), 0.0);
    for (size_t p = 0; p < keys.size(); ++p) {
      for (size_t i = 0; i < k_width; ++i) {
        scores[p] += q[head * k_width + i] * keys[p][kv_head * k_width + i];
      }
      scores[p] /= std::sqrt(static_cast<double>(k_width));
    }
    const double highest = *std::ranges::max_element(scores);
    double total = 0.0;
    for (double& score : scores) total += score = std::exp(score - highest);
    for (size_t p = 0; p < keys.size(); ++p) {
      for (size_t i = 0; i < v_width; ++i) {
        out[head * v_width + i] +=
            scores[p] / total * values[p][kv_head * v_width + i];
      }
    }
  }
  return out;
}

double Activate(const model::FfnConfig& ffn, double x) {
  switch (ffn.activation) {
    case Activation::kSilu:
      return x / (1.0 + std::exp(-x));
    case Activation::kGelu:
      return 0.5 * x *
             (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) *
                              (x + 0.044715 * x * x * x)));
    case Activation::kFatRelu:
      return x >= ffn.threshold ? x : 0.0;
    case Activation::kRelu:
    case Activation::kDRelu:
      return std::max(x, 0.0);
  }
  return x;
}

Vector Ffn(const model::FfnConfig& config, const model::FfnWeights& weights,
           const Vector& x) {
  const Vector gate = Multiply(weights.gate, weights.gate_bias, x);
  Vector hidden = Multiply(weights.up, weights.up_bias, x);
  for (size_t i = 0; i < hidden.size(); ++i) {
    if (config.activation == Activation::kDRelu) {
      hidden[i] = std::max(hidden[i], 0.0);
    }
    hidden[i] *= Activate(config, gate[i]);
  }
  return Multiply(weights.down, weights.down_bias, hidden);
}

void AddTo(const Vector& delta, Vector& x) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += delta[i];
}

}  // namespace

double ReferenceAngle(const model::RopeConfig& rope, double freq_factor,
                      int pair, double position) {
  const double n = rope.width;
  const double unscaled =
      position *
      std::pow(static_cast<double>(rope.freq_base), -2.0 * pair / n) /
      freq_factor;
  if (rope.scaling == model::RopeScaling::kNone) return unscaled;
  const double scaled = unscaled / rope.factor;
  if (rope.scaling == model::RopeScaling::kLinear) return scaled;
  // The dimension that turns `beta` times within the original context.
  const auto dimension_of = [&](double beta) {
    return n *
           std::log(static_cast<double>(rope.original_context) /
                    (beta * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(static_cast<double>(rope.freq_base)));
  };
  const double low = std::max(0.0, std::floor(dimension_of(32.0)));
  const double high = std::min(n - 1.0, std::ceil(dimension_of(1.0)));
  const double ramp =
      std::clamp((pair - low) / std::max(0.001, high - low), 0.0, 1.0);
  return scaled * ramp + unscaled * (1.0 - ramp);
}

double ReferenceMagnitude(const model::RopeConfig& rope) {
  if (rope.scaling != model::RopeScaling::kYarn) return 1.0;
  return rope.attention_factor *
         (1.0 + 0.1 * std::log(static_cast<double>(rope.factor)));
}

std::vector<double> ReferenceLogits(const model::Model& model,
                                    std::span<const text::TokenId> tokens) {
  const model::Config& config = model.config();
  const model::Weights& weights = model.weights();
  const size_t num_layers = weights.layers.size();
  std::vector<std::vector<Vector>> keys(num_layers);
  std::vector<std::vector<Vector>> values(num_layers);
  Vector logits;
  for (size_t t = 0; t < tokens.size(); ++t) {
    const double position = static_cast<double>(t);
    Vector x = RowOf(weights.token_embedding, static_cast<size_t>(tokens[t]));
    for (size_t i = 0; i < num_layers; ++i) {
      const model::AttentionWeights& a = weights.layers[i].attention;
      const Vector normed = RmsNorm(a.norm, config.norm_epsilon, x);
      Vector q = Multiply(a.q, a.q_bias, normed);
      Vector k = Multiply(a.k, a.k_bias, normed);
      Rotate(model, position, q);
      Rotate(model, position, k);
      keys[i].push_back(k);
      values[i].push_back(Multiply(a.v, a.v_bias, normed));
      AddTo(Multiply(a.out, a.out_bias, Attend(config, q, keys[i], values[i])),
            x);
      const model::FfnWeights& f = weights.layers[i].ffn;
      AddTo(Ffn(config.ffn, f, RmsNorm(f.norm, config.norm_epsilon, x)), x);
    }
    const Vector normed = RmsNorm(weights.output_norm, config.norm_epsilon, x);
    const Vector row = Multiply(weights.head, TensorView(), normed);
    logits.insert(logits.end(), row.begin(), row.end());
  }
  return logits;
}

namespace {

TEST(Reference, AnglesOfEachScaling) {
  model::RopeConfig rope;
  rope.width = 8;
  rope.freq_base = 10000.0f;
  EXPECT_NEAR(ReferenceAngle(rope, 1.0, 1, 3.0), 0.3, 1e-12);
  EXPECT_NEAR(ReferenceAngle(rope, 2.0, 1, 3.0), 0.15, 1e-12);
  rope.scaling = model::RopeScaling::kLinear;
  rope.factor = 4.0f;
  EXPECT_NEAR(ReferenceAngle(rope, 1.0, 1, 3.0), 0.075, 1e-12);
  EXPECT_DOUBLE_EQ(ReferenceMagnitude(rope), 1.0);
  rope.scaling = model::RopeScaling::kYarn;
  rope.original_context = 4096;
  // The fastest pair is not scaled, the slowest is wholly.
  EXPECT_NEAR(ReferenceAngle(rope, 1.0, 0, 3.0), 3.0, 1e-12);
  EXPECT_NEAR(ReferenceAngle(rope, 1.0, 3, 3.0), 0.003 / 4.0, 1e-12);
  EXPECT_NEAR(ReferenceMagnitude(rope), 1.0 + 0.1 * std::log(4.0), 1e-12);
}

// With the layers' outputs silenced, logits are head * norm(embedding).
TEST(Reference, WithoutLayersIsNormAndHead) {
  TinySpec spec;
  spec.edit = [](const std::string& name, std::span<float> values) {
    if (name.ends_with("attn_output.weight") ||
        name.ends_with("ffn_down.weight")) {
      std::ranges::fill(values, 0.0f);
    } else if (name == "token_embd.weight") {
      std::ranges::fill(values, 2.0f);
    } else if (name == "output_norm.weight") {
      std::ranges::fill(values, 3.0f);
    } else if (name == "output.weight") {
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(i / 96) / 96.0f;
      }
    }
  };
  const auto model = MakeTinyModel(spec);
  ASSERT_NE(model, nullptr);
  const auto logits = ReferenceLogits(*model, RandomTokens(2, 50));
  ASSERT_EQ(logits.size(), 100u);
  for (size_t i = 0; i < 50; ++i) {
    EXPECT_NEAR(logits[50 + i],
                3.0 * static_cast<double>(i) * 2.0 / std::sqrt(4.0 + 1e-5),
                1e-5);
  }
}

}  // namespace
}  // namespace thermocline::engine::testing
