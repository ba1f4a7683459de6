#include "npu/layer_tensors.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace thermocline::npu {
namespace {

// The order of one head for each of several.
std::vector<uint32_t> OrderOfHeads(const std::vector<uint32_t>& head,
                                   size_t num_heads) {
  std::vector<uint32_t> order;
  order.reserve(head.size() * num_heads);
  for (size_t h = 0; h < num_heads; ++h) {
    for (const uint32_t i : head) {
      order.push_back(static_cast<uint32_t>(h * head.size()) + i);
    }
  }
  return order;
}

class TensorList {
 public:
  void Vector(std::string name, const TensorView& view,
              std::vector<uint32_t> order = {}) {
    if (!view) return;
    tensors_.push_back({.name = std::move(name),
                        .source = {.view = view, .order = std::move(order)}});
  }
  // A matrix and its bias.
  void Linear(const std::string& name, const TensorView& matrix,
              const TensorView& bias, const std::vector<uint32_t>& order = {}) {
    tensors_.push_back({.name = name,
                        .is_matrix = true,
                        .source = {.view = matrix, .order = order}});
    Vector("b_" + name, bias, order);
  }
  void Transposed(const std::string& name, const TensorView& matrix,
                  const TensorView& bias) {
    tensors_.push_back({.name = name,
                        .is_matrix = true,
                        .source = {.view = matrix, .is_transposed = true}});
    Vector("b_" + name, bias);
  }
  std::vector<LayerTensor> Take() { return std::move(tensors_); }

 private:
  std::vector<LayerTensor> tensors_;
};

}  // namespace

std::vector<uint32_t> HeadOrder(const model::Config& config, size_t layer_idx) {
  const model::AttentionSpec& spec = config.layers[layer_idx].attention;
  if (spec.rope == model::AttentionSpec::kNoRope) return {};
  const model::RopeConfig& rope = config.ropes[static_cast<size_t>(spec.rope)];
  if (rope.kind != RopeKind::kNorm) return {};
  std::vector<uint32_t> order(spec.key_width);
  const size_t num_pairs = rope.width / 2;
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  for (uint32_t i = 0; i < num_pairs; ++i) {
    order[i] = 2 * i;
    order[i + num_pairs] = 2 * i + 1;
  }
  return order;
}

std::vector<LayerTensor> TensorsOf(const model::Model& model,
                                   const model::LayerWeights& weights,
                                   size_t layer_idx) {
  const model::AttentionSpec& spec = model.config().layers[layer_idx].attention;
  const model::AttentionWeights& a = weights.attention;
  const model::FfnWeights& f = weights.ffn;
  const std::vector<uint32_t> head = HeadOrder(model.config(), layer_idx);
  TensorList list;
  list.Vector("n_attn", a.norm);
  list.Vector("nb_attn", a.norm_bias);
  list.Linear("q", a.q, a.q_bias, OrderOfHeads(head, spec.num_heads));
  list.Linear("k", a.k, a.k_bias, OrderOfHeads(head, spec.num_kv_heads));
  list.Linear("v", a.v, a.v_bias);
  list.Vector("n_q", a.q_norm, head);
  list.Vector("n_k", a.k_norm, head);
  list.Linear("o", a.out, a.out_bias);
  list.Vector("n_ffn", f.norm);
  list.Vector("nb_ffn", f.norm_bias);
  if (model.config().layers[layer_idx].ffn.gated) {
    list.Linear("gate", f.gate, f.gate_bias);
  }
  list.Linear("up", f.up, f.up_bias);
  if (f.down) {
    list.Linear("down", f.down, f.down_bias);
  } else {
    list.Transposed("down", f.down_t, f.down_bias);
  }
  return list.Take();
}

Status CopyVector(const MatrixSource& source, std::byte* to) {
  TC_CHECK(source.view.in_memory() && source.view.dtype == DType::kF32);
  const std::vector<uint32_t>& order = source.order;
  for (size_t i = 0; i < source.columns(); ++i) {
    const size_t from = order.empty() ? i : order[i];
    float value = 0.0f;
    std::memcpy(&value, source.view.data + from * sizeof(float), sizeof(float));
    if (!std::isfinite(value)) {
      return Fail(ErrorCode::kInvalidArgument, "element {} is {}", from, value);
    }
    std::memcpy(to + i * sizeof(float), &value, sizeof(float));
  }
  return {};
}

}  // namespace thermocline::npu
