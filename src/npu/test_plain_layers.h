// For tests: the equations of a model's layers, plainly and in double
// precision.
#ifndef THERMOCLINE_NPU_TEST_PLAIN_LAYERS_H_
#define THERMOCLINE_NPU_TEST_PLAIN_LAYERS_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "model/model.h"
#include "model/rope.h"
#include "tensor/codec.h"
#include "tensor/float16.h"

namespace thermocline::npu {

using Numbers64 = std::vector<double>;

inline Numbers64 PlainRow(const TensorView& tensor, size_t row_idx) {
  std::vector<float> floats(tensor.shape.ne[0]);
  DequantizeRow(tensor.dtype, tensor.row(row_idx), floats);
  return {floats.begin(), floats.end()};
}

// Weights times x, plus a bias if there is one.
inline Numbers64 PlainProduct(const TensorView& weight, const TensorView& bias,
                              const Numbers64& x) {
  Numbers64 out =
      bias ? PlainRow(bias, 0) : Numbers64(weight.shape.num_rows(), 0.0);
  for (size_t r = 0; r < out.size(); ++r) {
    const Numbers64 row = PlainRow(weight, r);
    out[r] = std::inner_product(x.begin(), x.end(), row.begin(), out[r]);
  }
  return out;
}

inline Numbers64 PlainNorm(NormKind kind, double epsilon,
                           const TensorView& weight, const TensorView& bias,
                           Numbers64 x) {
  const auto n = static_cast<double>(x.size());
  if (kind == NormKind::kLayer) {
    const double mean = std::accumulate(x.begin(), x.end(), 0.0) / n;
    for (double& value : x) value -= mean;
  }
  const double squares = std::inner_product(x.begin(), x.end(), x.begin(), 0.0);
  const Numbers64 factors = PlainRow(weight, 0);
  const Numbers64 offsets = bias ? PlainRow(bias, 0) : Numbers64(x.size(), 0.0);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = x[i] / std::sqrt(squares / n + epsilon) * factors[i] + offsets[i];
  }
  return x;
}

inline double PlainActivation(const model::FfnSpec& ffn, double x) {
  switch (ffn.activation) {
    case Activation::kSilu:
      return x / (1.0 + std::exp(-x));
    case Activation::kGelu:
      return 0.5 * x *
             (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) *
                              (x + 0.044715 * x * x * x)));
    case Activation::kFatRelu:
      return x >= double{ffn.threshold} ? x : 0.0;
    case Activation::kRelu:
    case Activation::kDRelu:
      return std::max(x, 0.0);
    case Activation::kRelu2:
      return x > 0.0 ? x * x : 0.0;
  }
  return x;
}

// The layers of a model with the keys and values of one sequence, those in F16
// as caches are: [position][heads * width].
class PlainLayers {
 public:
  explicit PlainLayers(const model::Model& model)
      : model_(model),
        keys_(model.config().num_layers),
        values_(model.config().num_layers),
        opened_(model.config().num_layers) {}

  // Of the next position: x [D] becomes the output of the last layer.
  Numbers64 Run(Numbers64 x) {
    for (size_t i = 0; i < keys_.size(); ++i) x = RunLayer(i, x);
    return x;
  }
  const std::vector<Numbers64>& keys(size_t layer_idx) const {
    return keys_[layer_idx];
  }
  const std::vector<Numbers64>& values(size_t layer_idx) const {
    return values_[layer_idx];
  }
  // What the activation gave, [position][F].
  const std::vector<Numbers64>& opened(size_t layer_idx) const {
    return opened_[layer_idx];
  }

 private:
  Numbers64 RunLayer(size_t layer_idx, const Numbers64& x) {
    const model::Config& config = model_.config();
    const model::LayerSpec& spec = config.layers[layer_idx];
    const model::LayerWeights& w = model_.weights().layers[layer_idx];
    const auto norm = [&](const auto& part, const Numbers64& in) {
      return PlainNorm(config.norm, double{config.norm_epsilon}, part.norm,
                       part.norm_bias, in);
    };
    Numbers64 out = x;
    AddTo(PlainAttention(layer_idx, norm(w.attention, x)), out);
    opened_[layer_idx].emplace_back();
    AddTo(PlainFfn(spec.ffn, w.ffn, norm(w.ffn, spec.parallel ? x : out),
                   opened_[layer_idx].back()),
          out);
    return out;
  }

  static void AddTo(const Numbers64& delta, Numbers64& x) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += delta[i];
  }
  static Numbers64 AsHalves(Numbers64 x) {
    for (double& value : x) {
      value = double{F16ToF32(F32ToF16(static_cast<float>(value)))};
    }
    return x;
  }

  Numbers64 PlainAttention(size_t layer_idx, const Numbers64& x) {
    const model::AttentionSpec& spec =
        model_.config().layers[layer_idx].attention;
    const model::AttentionWeights& w =
        model_.weights().layers[layer_idx].attention;
    const size_t position = keys_[layer_idx].size();
    const auto heads = [&](const TensorView& weight, const TensorView& bias,
                           const TensorView& norm) {
      return NormedAndRotated(spec, norm, position,
                              PlainProduct(weight, bias, x));
    };
    const Numbers64 q = heads(w.q, w.q_bias, w.q_norm);
    keys_[layer_idx].push_back(AsHalves(heads(w.k, w.k_bias, w.k_norm)));
    values_[layer_idx].push_back(AsHalves(PlainProduct(w.v, w.v_bias, x)));
    return PlainProduct(w.out, w.out_bias,
                        Attend(spec, q, keys_[layer_idx], values_[layer_idx]));
  }

  Numbers64 NormedAndRotated(const model::AttentionSpec& spec,
                             const TensorView& norm, size_t position,
                             Numbers64 x) const {
    const size_t width = spec.key_width;
    for (size_t first = 0; first < x.size(); first += width) {
      Numbers64 head(x.begin() + static_cast<ptrdiff_t>(first),
                     x.begin() + static_cast<ptrdiff_t>(first + width));
      if (norm) {
        head = PlainNorm(NormKind::kRms, double{model_.config().norm_epsilon},
                         norm, TensorView(), std::move(head));
      }
      if (spec.rope >= 0) Rotate(spec, position, head);
      std::ranges::copy(head, x.begin() + static_cast<ptrdiff_t>(first));
    }
    return x;
  }

  void Rotate(const model::AttentionSpec& spec, size_t position,
              Numbers64& head) const {
    const model::RopeConfig& rope =
        model_.config().ropes[static_cast<size_t>(spec.rope)];
    const model::RopeTable table(rope, model_.weights().rope_freq_factors);
    const size_t num_pairs = table.num_pairs();
    std::vector<float> cos(num_pairs);
    std::vector<float> sin(num_pairs);
    table.Angles(static_cast<int64_t>(position), cos.data(), sin.data());
    const bool is_neox = rope.kind == RopeKind::kNeox;
    for (size_t i = 0; i < num_pairs; ++i) {
      double& a = head[is_neox ? i : 2 * i];
      double& b = head[is_neox ? i + num_pairs : 2 * i + 1];
      const double c = cos[i];
      const double s = sin[i];
      std::tie(a, b) = std::pair(a * c - b * s, a * s + b * c);
    }
  }

  static Numbers64 Attend(const model::AttentionSpec& spec, const Numbers64& q,
                          const std::vector<Numbers64>& keys,
                          const std::vector<Numbers64>& values) {
    const size_t k_width = spec.key_width;
    const size_t v_width = spec.value_width;
    Numbers64 out(spec.num_heads * v_width, 0.0);
    for (size_t head = 0; head < spec.num_heads; ++head) {
      const size_t kv_head = head * spec.num_kv_heads / spec.num_heads;
      Numbers64 shares(keys.size(), 0.0);
      double total = 0.0;
      for (size_t p = 0; p < keys.size(); ++p) {
        for (size_t i = 0; i < k_width; ++i) {
          shares[p] += q[head * k_width + i] * keys[p][kv_head * k_width + i];
        }
        shares[p] = std::exp(shares[p] / std::sqrt(double(k_width)));
        total += shares[p];
      }
      for (size_t p = 0; p < keys.size(); ++p) {
        for (size_t i = 0; i < v_width; ++i) {
          out[head * v_width + i] +=
              shares[p] / total * values[p][kv_head * v_width + i];
        }
      }
    }
    return out;
  }

  static Numbers64 PlainFfn(const model::FfnSpec& spec,
                            const model::FfnWeights& w, const Numbers64& x,
                            Numbers64& opened) {
    Numbers64 hidden = PlainProduct(w.up, w.up_bias, x);
    opened = spec.gated ? PlainProduct(w.gate, w.gate_bias, x) : hidden;
    for (size_t i = 0; i < hidden.size(); ++i) {
      opened[i] = PlainActivation(spec, opened[i]);
      if (spec.activation == Activation::kDRelu) {
        hidden[i] = std::max(hidden[i], 0.0);
      }
      hidden[i] = spec.gated ? hidden[i] * opened[i] : opened[i];
    }
    if (w.down) return PlainProduct(w.down, w.down_bias, hidden);
    Numbers64 out = w.down_bias ? PlainRow(w.down_bias, 0)
                                : Numbers64(w.down_t.shape.ne[0], 0.0);
    for (size_t i = 0; i < hidden.size(); ++i) {
      const Numbers64 row = PlainRow(w.down_t, i);
      for (size_t r = 0; r < out.size(); ++r) out[r] += row[r] * hidden[i];
    }
    return out;
  }

  const model::Model& model_;
  std::vector<std::vector<Numbers64>> keys_;
  std::vector<std::vector<Numbers64>> values_;
  std::vector<std::vector<Numbers64>> opened_;
};

// Mean square of the difference over that of what is expected.
template <typename A, typename B>
double RelativeSquares(const A& actual, const B& expected) {
  if (actual.size() != expected.size()) return 1e30;
  double error = 0.0;
  double power = 0.0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double difference = double(actual[i]) - double(expected[i]);
    error += difference * difference;
    power += double(expected[i]) * double(expected[i]);
  }
  return error == 0.0 ? 0.0 : error / power;
}

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_TEST_PLAIN_LAYERS_H_
