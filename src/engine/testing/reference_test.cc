#include "engine/testing/reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "engine/testing/tiny_model.h"
#include "tensor/codec.h"

namespace thermocline::engine::testing {
namespace {

using Vector = std::vector<double>;

Vector RowOf(const TensorView& tensor, size_t row_idx) {
  std::vector<float> floats(tensor.shape.ne[0]);
  DequantizeRow(tensor.dtype, tensor.row(row_idx), floats);
  return Vector(floats.data(), floats.data() + floats.size());
}

Vector Multiply(const TensorView& weight, const TensorView& bias,
                const Vector& x) {
  Vector out(weight.shape.num_rows());
  const Vector offsets = bias ? RowOf(bias, 0) : Vector(out.size(), 0.0);
  for (size_t r = 0; r < out.size(); ++r) {
    const Vector row = RowOf(weight, r);
    out[r] = std::inner_product(x.data(), x.data() + x.size(), row.data(),
                                offsets[r]);
  }
  return out;
}

// weight^T x, for matrices kept with a row per input.
Vector MultiplyTransposed(const TensorView& weight, const TensorView& bias,
                          const Vector& x) {
  Vector out = bias ? RowOf(bias, 0) : Vector(weight.shape.ne[0], 0.0);
  for (size_t i = 0; i < x.size(); ++i) {
    const Vector row = RowOf(weight, i);
    for (size_t r = 0; r < out.size(); ++r) out[r] += row[r] * x[i];
  }
  return out;
}

double MeanOf(const Vector& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) /
         static_cast<double>(x.size());
}

Vector Normalize(const model::Config& config, const TensorView& weight,
                 const TensorView& bias, Vector x) {
  if (config.norm == NormKind::kLayer) {
    const double mean = MeanOf(x);
    for (double& value : x) value -= mean;
  }
  Vector squares = x;
  for (double& value : squares) value *= value;
  const double size = std::sqrt(MeanOf(squares) + config.norm_epsilon);
  Vector out = RowOf(weight, 0);
  const Vector offsets = bias ? RowOf(bias, 0) : Vector(out.size(), 0.0);
  for (size_t i = 0; i < x.size(); ++i) {
    out[i] = out[i] * x[i] / size + offsets[i];
  }
  return out;
}

// Each head by itself, where the model does that.
void NormalizeHeads(const model::Config& config,
                    const model::AttentionSpec& spec, const TensorView& weight,
                    Vector& heads) {
  if (!weight) return;
  const auto head_width = static_cast<ptrdiff_t>(spec.key_width);
  for (auto head = heads.begin(); head != heads.end(); head += head_width) {
    model::Config rms = config;
    rms.norm = NormKind::kRms;
    const Vector normed =
        Normalize(rms, weight, TensorView(), Vector(head, head + head_width));
    std::ranges::copy(normed, head);
  }
}

void Rotate(const model::Config& config, const model::AttentionSpec& spec,
            const model::Weights& weights, double position, Vector& heads) {
  if (spec.rope == model::AttentionSpec::kNoRope) return;
  const model::RopeConfig& rope = config.ropes[static_cast<size_t>(spec.rope)];
  const auto& factors = weights.rope_freq_factors;
  const size_t head_width = spec.key_width;
  const auto num_pairs = static_cast<int>(rope.width / 2);
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
Vector Attend(const model::AttentionSpec& spec, const Vector& q,
              const std::vector<Vector>& keys,
              const std::vector<Vector>& values) {
  const size_t k_width = spec.key_width;
  const size_t v_width = spec.value_width;
  const size_t num_heads = spec.num_heads;
  const size_t group = num_heads / spec.num_kv_heads;
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

double Activate(const model::FfnSpec& ffn, Mistake mistake, double x) {
  switch (ffn.activation) {
    case Activation::kSilu:
      return x / (1.0 + std::exp(-x));
    case Activation::kGelu:
      if (mistake == Mistake::kErfGelu) {
        return 0.5 * x * (1.0 + std::erf(x / std::numbers::sqrt2));
      }
      return 0.5 * x *
             (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) *
                              (x + 0.044715 * x * x * x)));
    case Activation::kFatRelu:
      return x >= ffn.threshold ? x : 0.0;
    case Activation::kRelu:
    case Activation::kDRelu:
      return std::max(x, 0.0);
    case Activation::kRelu2:
      return x > 0.0 ? x * x : 0.0;
  }
  return x;
}

Vector Ffn(const model::FfnSpec& config, const model::FfnWeights& weights,
           const model::FfnMatrices& matrices, Mistake mistake, const Vector& x,
           const std::vector<bool>& mask = {}) {
  Vector hidden = Multiply(matrices.up, weights.up_bias, x);
  const Vector gate =
      config.gated ? Multiply(matrices.gate, weights.gate_bias, x) : Vector();
  for (size_t i = 0; i < hidden.size(); ++i) {
    if (!config.gated) {
      hidden[i] = Activate(config, mistake, hidden[i]);
      continue;
    }
    if (config.activation == Activation::kDRelu) {
      hidden[i] = std::max(hidden[i], 0.0);
    }
    hidden[i] *= Activate(config, mistake, gate[i]);
  }
  for (size_t i = 0; i < mask.size(); ++i) {
    if (!mask[i]) hidden[i] = 0.0;
  }
  return matrices.down
             ? Multiply(matrices.down, weights.down_bias, hidden)
             : MultiplyTransposed(matrices.down_t, weights.down_bias, hidden);
}

void AddTo(const Vector& delta, Vector& x) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += delta[i];
}

// The share of each expert for a token; 0 for those that it does not use.
Vector ExpertWeights(const model::FfnSpec& config, Vector shares,
                     Mistake mistake) {
  const double highest = *std::ranges::max_element(shares);
  double total = 0.0;
  for (double& share : shares) total += share = std::exp(share - highest);
  for (double& share : shares) share /= total;
  const bool last_wins = mistake == Mistake::kLastExpertOfTies;
  Vector chosen(shares.size(), 0.0);
  double total_chosen = 0.0;
  for (size_t i = 0; i < config.num_experts_used; ++i) {
    size_t best = 0;
    for (size_t e = 1; e < shares.size(); ++e) {
      if (shares[e] > shares[best] ||
          (last_wins && shares[e] == shares[best])) {
        best = e;
      }
    }
    total_chosen += chosen[best] = shares[best];
    shares[best] = -1.0;
  }
  if (mistake == Mistake::kRawExpertWeights) return chosen;
  for (double& weight : chosen) weight /= total_chosen;
  return chosen;
}

Vector FfnOrExperts(const model::FfnSpec& config,
                    const model::FfnWeights& weights, Mistake mistake,
                    const Vector& x, const std::vector<bool>& mask) {
  if (config.num_experts == 0) {
    return Ffn(config, weights, weights, mistake, x, mask);
  }
  const Vector shares =
      ExpertWeights(config, Multiply(weights.router, TensorView(), x), mistake);
  Vector sum(x.size(), 0.0);
  for (size_t e = 0; e < shares.size(); ++e) {
    if (shares[e] == 0.0) continue;
    Vector delta = Ffn(config, weights, weights.experts[e], mistake, x);
    for (double& value : delta) value *= shares[e];
    AddTo(delta, sum);
  }
  return sum;
}

// Keys and values of one layer, [position][all heads].
struct History {
  std::vector<Vector> keys;
  std::vector<Vector> values;
};

// What one layer makes of x at `position`.
Vector RunLayer(const model::Config& config, const model::Weights& weights,
                size_t layer_idx, Mistake mistake, const NeuronMaskFn& mask,
                double position, History& history, const Vector& x) {
  const model::LayerWeights& layer = weights.layers[layer_idx];
  const model::AttentionWeights& a = layer.attention;
  const model::LayerSpec& spec = config.layers[layer_idx];
  const Vector normed = Normalize(config, a.norm, a.norm_bias, x);
  Vector q = Multiply(a.q, a.q_bias, normed);
  Vector k = Multiply(a.k, a.k_bias, normed);
  NormalizeHeads(config, spec.attention, a.q_norm, q);
  NormalizeHeads(config, spec.attention, a.k_norm, k);
  Rotate(config, spec.attention, weights, position, q);
  Rotate(config, spec.attention, weights, position, k);
  history.keys.push_back(k);
  history.values.push_back(Multiply(a.v, a.v_bias, normed));
  Vector out = x;
  AddTo(Multiply(a.out, a.out_bias,
                 Attend(spec.attention, q, history.keys, history.values)),
        out);
  const model::FfnWeights& f = layer.ffn;
  const bool parallel = spec.parallel && mistake != Mistake::kSequentialBlock;
  const Vector& stream = parallel ? x : out;
  const Vector ffn_input = mistake == Mistake::kFfnNormOfAttention
                               ? normed
                               : Normalize(config, f.norm, f.norm_bias, stream);
  const std::vector<bool> active =
      mask ? mask(layer_idx, stream, ffn_input) : std::vector<bool>();
  AddTo(FfnOrExperts(spec.ffn, f, mistake, ffn_input, active), out);
  return out;
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

std::vector<double> ReferenceLogits(const model::Config& config,
                                    const model::Weights& weights,
                                    std::span<const text::TokenId> tokens,
                                    Mistake mistake, const NeuronMaskFn& mask) {
  std::vector<History> histories(weights.layers.size());
  Vector logits;
  for (size_t t = 0; t < tokens.size(); ++t) {
    Vector x = RowOf(weights.token_embedding, static_cast<size_t>(tokens[t]));
    if (weights.position_embedding) {
      AddTo(RowOf(weights.position_embedding, t), x);
    }
    for (size_t i = 0; i < weights.layers.size(); ++i) {
      x = RunLayer(config, weights, i, mistake, mask, static_cast<double>(t),
                   histories[i], x);
    }
    const Vector normed =
        Normalize(config, weights.output_norm, weights.output_norm_bias, x);
    const Vector row = Multiply(weights.head, TensorView(), normed);
    logits.insert(logits.end(), row.begin(), row.end());
  }
  return logits;
}

std::vector<double> ReferenceLogits(const model::Model& model,
                                    std::span<const text::TokenId> tokens,
                                    Mistake mistake) {
  return ReferenceLogits(model.config(), model.weights(), tokens, mistake);
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
