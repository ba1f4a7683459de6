#include "model/weights.h"

#include <cmath>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/quote.h"
#include "tensor/codec.h"

namespace thermocline::model {
namespace {

// Extents that a weight can have, by their letter or formula.
enum class Extent { kOne, kD, kF, kV, kQ, kK, kKv, kO, kPairs };

int64_t Resolve(Extent extent, const Config& config) {
  switch (extent) {
    case Extent::kOne:
      return 1;
    case Extent::kD:
      return config.width;
    case Extent::kF:
      return config.ffn_width;
    case Extent::kV:
      return config.vocab_size;
    case Extent::kQ:
      return config.num_heads * config.key_width;
    case Extent::kK:
      return config.num_kv_heads * config.key_width;
    case Extent::kKv:
      return config.num_kv_heads * config.value_width;
    case Extent::kO:
      return config.num_heads * config.value_width;
    case Extent::kPairs:
      return config.rope.width / 2;
  }
  TC_CHECK(false && "not an Extent");
}

enum class Presence { kRequired, kOptional, kQkvBias };

// Rows of `columns` elements; vectors have one row.
struct Form {
  Extent rows;
  Extent columns;
};
constexpr Form Vector(Extent length) { return {Extent::kOne, length}; }

template <typename Owner>
struct Role {
  std::string_view name;  // behind "blk.N." for a layer's weight
  Form form;
  Presence presence;
  TensorView& (*slot)(Owner&);
};

using enum Extent;
using enum Presence;
using Layer = LayerWeights;

constexpr Role<Weights> kModelRoles[] = {
    {"token_embd.weight",
     {kV, kD},
     kRequired,
     [](Weights& w) -> auto& { return w.token_embedding; }},
    {"output_norm.weight", Vector(kD), kRequired,
     [](Weights& w) -> auto& { return w.output_norm; }},
    {"output.weight",
     {kV, kD},
     kOptional,
     [](Weights& w) -> auto& { return w.head; }},
};

constexpr Role<Layer> kLayerRoles[] = {
    {"attn_norm.weight", Vector(kD), kRequired,
     [](Layer& l) -> auto& { return l.attention.norm; }},
    {"attn_q.weight",
     {kQ, kD},
     kRequired,
     [](Layer& l) -> auto& { return l.attention.q; }},
    {"attn_k.weight",
     {kK, kD},
     kRequired,
     [](Layer& l) -> auto& { return l.attention.k; }},
    {"attn_v.weight",
     {kKv, kD},
     kRequired,
     [](Layer& l) -> auto& { return l.attention.v; }},
    {"attn_output.weight",
     {kD, kO},
     kRequired,
     [](Layer& l) -> auto& { return l.attention.out; }},
    {"attn_q.bias", Vector(kQ), kQkvBias,
     [](Layer& l) -> auto& { return l.attention.q_bias; }},
    {"attn_k.bias", Vector(kK), kQkvBias,
     [](Layer& l) -> auto& { return l.attention.k_bias; }},
    {"attn_v.bias", Vector(kKv), kQkvBias,
     [](Layer& l) -> auto& { return l.attention.v_bias; }},
    {"attn_output.bias", Vector(kD), kOptional,
     [](Layer& l) -> auto& { return l.attention.out_bias; }},
    {"ffn_norm.weight", Vector(kD), kRequired,
     [](Layer& l) -> auto& { return l.ffn.norm; }},
    {"ffn_gate.weight",
     {kF, kD},
     kRequired,
     [](Layer& l) -> auto& { return l.ffn.gate; }},
    {"ffn_up.weight",
     {kF, kD},
     kRequired,
     [](Layer& l) -> auto& { return l.ffn.up; }},
    {"ffn_down.weight",
     {kD, kF},
     kRequired,
     [](Layer& l) -> auto& { return l.ffn.down; }},
    {"ffn_gate.bias", Vector(kF), kOptional,
     [](Layer& l) -> auto& { return l.ffn.gate_bias; }},
    {"ffn_up.bias", Vector(kF), kOptional,
     [](Layer& l) -> auto& { return l.ffn.up_bias; }},
    {"ffn_down.bias", Vector(kD), kOptional,
     [](Layer& l) -> auto& { return l.ffn.down_bias; }},
};

// Tables of inverse frequencies that old converters copied along; the angles
// are computed from the metadata.
bool IsHarmless(std::string_view name) {
  return name == "rope.freqs" ||
         (name.starts_with("blk.") && name.ends_with(".attn_rot_embd.weight"));
}

class Binder {
 public:
  Binder(const gguf::File& file, const Config& config)
      : file_(file), config_(config), is_bound_(file.tensors().size()) {}

  // Binds one role; `prefix` is "" or "blk.N.".
  template <typename Owner>
  Status Bind(const std::string& prefix, const Role<Owner>& role,
              Owner& owner) {
    const std::string name = prefix + std::string(role.name);
    const bool is_required = role.presence == kRequired ||
                             (role.presence == kQkvBias && config_.qkv_bias);
    TC_ASSIGN_OR_RETURN(role.slot(owner), Take(name, role.form, is_required));
    return {};
  }

  // RoPE factors: copied, since they are few and read as floats.
  Result<std::vector<float>> TakeRopeFactors();

  // kUnsupported when a tensor is left that nobody took.
  Status CheckAllTaken() const;

 private:
  Result<TensorView> Take(const std::string& name, const Form& form,
                          bool is_required);
  Status CheckForm(const gguf::TensorInfo& info, const Form& form) const;

  const gguf::File& file_;
  const Config& config_;
  std::vector<bool> is_bound_;  // by position in file_.tensors()
};

Result<TensorView> Binder::Take(const std::string& name, const Form& form,
                                bool is_required) {
  const gguf::TensorInfo* info = file_.FindTensor(name);
  if (info == nullptr) {
    if (!is_required) return TensorView();
    return Fail(ErrorCode::kCorrupt, "{}: tensor \"{}\" is missing",
                file_.path(), name);
  }
  TC_RETURN_IF_ERROR(CheckForm(*info, form));
  is_bound_[static_cast<size_t>(info - file_.tensors().data())] = true;
  return TensorView{info->dtype, info->shape, info->data};
}

Status Binder::CheckForm(const gguf::TensorInfo& info, const Form& form) const {
  const auto rows = static_cast<uint64_t>(Resolve(form.rows, config_));
  const auto columns = static_cast<uint64_t>(Resolve(form.columns, config_));
  const bool is_vector = form.rows == kOne;
  const Shape expected = {{columns, rows, 1, 1}, is_vector ? 1 : 2};
  // Trailing extents of 1 do not matter, so the rank does not.
  if (info.shape.ne != expected.ne) {
    return Fail(ErrorCode::kCorrupt,
                "{}: tensor {} has the shape {}; the metadata say {}",
                file_.path(), Quote(info.name), ToString(info.shape),
                ToString(expected));
  }
  if (is_vector && info.dtype != DType::kF32) {
    return Fail(ErrorCode::kUnsupported,
                "{}: tensor {} is {}; norms, biases and RoPE factors must be "
                "F32",
                file_.path(), Quote(info.name), NameOf(info.dtype));
  }
  if (!InfoOf(info.dtype).can_compute) {
    return Fail(ErrorCode::kUnsupported,
                "{}: tensor {} is {}, which this version cannot compute with",
                file_.path(), Quote(info.name), NameOf(info.dtype));
  }
  return {};
}

Result<std::vector<float>> Binder::TakeRopeFactors() {
  constexpr char kName[] = "rope_freqs.weight";
  TC_ASSIGN_OR_RETURN(const TensorView view,
                      Take(kName, Vector(kPairs), false));
  if (!view) return std::vector<float>();
  std::vector<float> factors(view.shape.ne[0]);
  std::memcpy(factors.data(), view.data, view.num_bytes());
  for (size_t i = 0; i < factors.size(); ++i) {
    if (!std::isfinite(factors[i]) || factors[i] == 0.0f) {
      return Fail(ErrorCode::kCorrupt,
                  "{}: tensor \"{}\": element {} is {}; angles are divided by "
                  "it",
                  file_.path(), kName, i, factors[i]);
    }
  }
  return factors;
}

Status Binder::CheckAllTaken() const {
  for (size_t i = 0; i < is_bound_.size(); ++i) {
    const std::string& name = file_.tensors()[i].name;
    if (is_bound_[i] || IsHarmless(name)) continue;
    return Fail(ErrorCode::kUnsupported,
                "{}: tensor {} is unknown to the architecture \"{}\"; without "
                "it the result would be another",
                file_.path(), Quote(name), config_.architecture);
  }
  return {};
}

}  // namespace

Result<Weights> BindWeights(const gguf::File& file, const Config& config) {
  Binder binder(file, config);
  Weights weights;
  for (const Role<Weights>& role : kModelRoles) {
    TC_RETURN_IF_ERROR(binder.Bind("", role, weights));
  }
  weights.tied = !weights.head;
  if (weights.tied) weights.head = weights.token_embedding;
  TC_ASSIGN_OR_RETURN(weights.rope_freq_factors, binder.TakeRopeFactors());
  for (int64_t i = 0; i < config.num_layers; ++i) {
    LayerWeights& layer = weights.layers.emplace_back();
    const std::string prefix = fmt::format("blk.{}.", i);
    for (const Role<LayerWeights>& role : kLayerRoles) {
      TC_RETURN_IF_ERROR(binder.Bind(prefix, role, layer));
    }
  }
  TC_RETURN_IF_ERROR(binder.CheckAllTaken());
  return weights;
}

Status CheckTensors(const gguf::File& file, const ProgressFn& progress) {
  uint64_t num_total = 0;
  for (const gguf::TensorInfo& info : file.tensors()) {
    num_total += info.num_bytes;
  }
  uint64_t num_done = 0;
  for (const gguf::TensorInfo& info : file.tensors()) {
    ReportProgress(progress, "checking tensors", num_done, num_total);
    num_done += info.num_bytes;
    if (!InfoOf(info.dtype).can_compute) continue;
    const auto element = FindNonFinite({info.dtype, info.shape, info.data});
    if (element) {
      return Fail(ErrorCode::kCorrupt,
                  "{}: tensor {}: element {} is not finite (a damaged file?)",
                  file.path(), Quote(info.name), *element);
    }
  }
  ReportProgress(progress, "checking tensors", num_total, num_total);
  return {};
}

}  // namespace thermocline::model
