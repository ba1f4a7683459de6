#include "quantize/rules.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace thermocline::quantize {
namespace {

constexpr std::string_view kEmbedding = "token_embd.weight";
constexpr std::string_view kOutput = "output.weight";
// The only number of experts that llama.cpp's mixes know of: Mixtral's.
constexpr size_t kMixtralExperts = 8;

// Matrices that stay: whole names, and parts of names.
constexpr std::string_view kKeptNames[] = {"position_embd.weight",
                                           "token_types.weight"};
constexpr std::string_view kKeptParts[] = {"_norm.weight",
                                           "ffn_gate_inp.weight",
                                           "ssm_conv1d.weight",
                                           "time_mix_first.weight",
                                           "time_mix_w1.weight",
                                           "time_mix_w2.weight",
                                           "time_mix_decay_w1.weight",
                                           "time_mix_decay_w2.weight",
                                           "time_mix_lerp_fused.weight",
                                           "attn_rel_b.weight"};

enum class TensorKind {
  kOther,
  kAttnV,
  kAttnK,
  kFfnDown,
  kAttnOutput,
  kAttnQkv
};

struct KindName {
  std::string_view part;
  TensorKind kind;
};
// ffn_down is also part of the names of experts' matrices and of the transposed
// ffn_down_t of PowerInfer's and KAIROX's files.
constexpr KindName kKindNames[] = {
    {"attn_v.weight", TensorKind::kAttnV},
    {"attn_k.weight", TensorKind::kAttnK},
    {"ffn_down", TensorKind::kFfnDown},
    {"attn_output.weight", TensorKind::kAttnOutput},
    {"attn_qkv.weight", TensorKind::kAttnQkv}};

enum class Family { kAny, kFalcon, kOther };

enum class Layers {
  kAll,
  kFirstFour,
  kFirstSixteenth,
  kFirstEighth,
  kMoreBits,  // the first and last eighth, and every third between
};

struct Rule {
  gguf::FileType type;
  TensorKind kind;
  Family family;
  Layers layers;
  DType dtype;
};
// The first that fits a tensor counts.
constexpr Rule kRules[] = {
    {gguf::FileType::kQ4_K_S, TensorKind::kAttnV, Family::kAny,
     Layers::kFirstFour, DType::kQ5_K},
    {gguf::FileType::kQ4_K_S, TensorKind::kFfnDown, Family::kOther,
     Layers::kFirstEighth, DType::kQ5_K},
    {gguf::FileType::kQ4_K_M, TensorKind::kAttnV, Family::kAny,
     Layers::kMoreBits, DType::kQ6_K},
    {gguf::FileType::kQ4_K_M, TensorKind::kFfnDown, Family::kFalcon,
     Layers::kFirstSixteenth, DType::kQ6_K},
    {gguf::FileType::kQ4_K_M, TensorKind::kFfnDown, Family::kFalcon,
     Layers::kMoreBits, DType::kQ5_K},
    {gguf::FileType::kQ4_K_M, TensorKind::kFfnDown, Family::kOther,
     Layers::kMoreBits, DType::kQ6_K},
    {gguf::FileType::kQ4_K_M, TensorKind::kAttnQkv, Family::kAny, Layers::kAll,
     DType::kQ5_K},
    {gguf::FileType::kQ5_K_M, TensorKind::kAttnV, Family::kAny,
     Layers::kMoreBits, DType::kQ6_K},
    {gguf::FileType::kQ5_K_M, TensorKind::kFfnDown, Family::kAny,
     Layers::kMoreBits, DType::kQ6_K},
    {gguf::FileType::kQ5_K_M, TensorKind::kAttnQkv, Family::kAny, Layers::kAll,
     DType::kQ6_K},
};

bool Contains(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

TensorKind KindOf(std::string_view name) {
  for (const KindName& known : kKindNames) {
    if (Contains(name, known.part)) return known.kind;
  }
  return TensorKind::kOther;
}

Family FamilyOf(const QuantizedModel& model) {
  return model.architecture == "falcon" || model.architecture == "relu-falcon"
             ? Family::kFalcon
             : Family::kOther;
}

// 7 for "blk.7.attn_v.weight". By the name, not by counting tensors: files that
// hold a matrix twice (KAIROX's ffn_down and ffn_down_t) get one mix.
std::optional<size_t> LayerOf(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view rest = name.substr(kPrefix.size());
  int64_t layer = -1;
  const auto [end, error] =
      std::from_chars(rest.data(), rest.data() + rest.size(), layer);
  const bool whole =
      error == std::errc() && end != rest.data() + rest.size() && *end == '.';
  if (!whole || layer < 0) return std::nullopt;
  return static_cast<size_t>(layer);
}

bool Holds(Layers layers, std::optional<size_t> layer, size_t num_layers) {
  if (layers == Layers::kAll) return true;
  if (!layer.has_value()) return false;
  switch (layers) {
    case Layers::kFirstFour:
      return *layer < 4;
    case Layers::kFirstSixteenth:
      return *layer < num_layers / 16;
    case Layers::kFirstEighth:
      return *layer < num_layers / 8;
    default:
      return *layer < num_layers / 8 || *layer >= 7 * num_layers / 8 ||
             (*layer - num_layers / 8) % 3 == 2;
  }
}

// A predictor says which neurons fire; its rows are far apart from weights'.
bool IsPowerInferPredictor(const QuantizedModel& model, std::string_view name) {
  return model.container == gguf::Container::kPowerInfer &&
         (name.ends_with(".fc1.weight") || name.ends_with(".fc2.weight"));
}

// As PowerInfer's own tool has it, but for the types that it cannot run: in
// files of six and eight bits a predictor of five makes three to four times the
// error in the logits (golden PowerInfer models).
DType PowerInferPredictorType(gguf::FileType type) {
  switch (type) {
    case gguf::FileType::kQ4_0:
      return DType::kQ4_0;
    case gguf::FileType::kQ6_K:
    case gguf::FileType::kQ8_0:
      return DType::kQ8_0;
    default:
      return DType::kQ5_0;
  }
}

// What is particular to Mixtral: the attention is small beside eight experts.
std::optional<DType> TypeBesideEightExperts(const QuantizedModel& model,
                                            gguf::FileType type,
                                            TensorKind kind) {
  if (kind == TensorKind::kAttnV || kind == TensorKind::kAttnK)
    return DType::kQ8_0;
  if (kind == TensorKind::kAttnOutput && FamilyOf(model) != Family::kFalcon &&
      InfoOf(type).dtype == DType::kQ4_K) {
    return DType::kQ5_K;
  }
  return std::nullopt;
}

}  // namespace

bool IsQuantisable(std::string_view name, const Shape& shape) {
  const bool is_matrix =
      std::any_of(shape.ne.begin() + 1, shape.ne.end(),
                  [](uint64_t extent) { return extent > 1; });
  return is_matrix && name.ends_with("weight") &&
         std::ranges::find(kKeptNames, name) == std::end(kKeptNames) &&
         std::ranges::none_of(kKeptParts, [name](std::string_view part) {
           return Contains(name, part);
         });
}

bool IsHead(const QuantizedModel& model, std::string_view name) {
  return name == (model.has_output ? kOutput : kEmbedding);
}

DType TypeInMix(const QuantizedModel& model, gguf::FileType type,
                std::string_view name) {
  const DType dtype = InfoOf(type).dtype;
  if (IsFloat(dtype)) return dtype;
  if (IsHead(model, name)) {
    return FamilyOf(model) == Family::kFalcon || dtype == DType::kQ8_0
               ? DType::kQ8_0
               : DType::kQ6_K;
  }
  if (IsPowerInferPredictor(model, name)) return PowerInferPredictorType(type);
  if (Contains(name, "ffn_pred_")) return DType::kF16;  // KAIROX insists on it

  const TensorKind kind = KindOf(name);
  if (model.num_experts == kMixtralExperts) {
    if (const auto found = TypeBesideEightExperts(model, type, kind)) {
      return *found;
    }
  }
  const auto layer = LayerOf(name);
  for (const Rule& rule : kRules) {
    if (rule.type == type && rule.kind == kind &&
        (rule.family == Family::kAny || rule.family == FamilyOf(model)) &&
        Holds(rule.layers, layer, model.num_layers)) {
      return rule.dtype;
    }
  }
  const bool is_small_attn_v =
      kind == TensorKind::kAttnV && model.has_70b_attention;
  return is_small_attn_v && dtype == DType::kQ4_K ? DType::kQ5_K : dtype;
}

DType FittingType(DType dtype, uint64_t row_elems) {
  const auto fits = [row_elems](DType type) {
    return row_elems % InfoOf(type).block_elems == 0;
  };
  if (fits(dtype)) return dtype;
  DType smaller = dtype;
  if (dtype == DType::kQ4_K) smaller = DType::kQ5_0;
  if (dtype == DType::kQ5_K) smaller = DType::kQ5_1;
  if (dtype == DType::kQ6_K) smaller = DType::kQ8_0;
  return fits(smaller) ? smaller : DType::kF16;
}

}  // namespace thermocline::quantize
