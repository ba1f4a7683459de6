#include "inspect/tensor_role.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/check.h"

namespace thermocline::inspect {
namespace {

// Layers beyond this are no layers: a name cannot ask for a million rows.
constexpr int kMaxNamedLayers = 4096;

struct RoleInfo {
  TensorRole role;
  TensorClass tensor_class;
  const char* name;
};
constexpr RoleInfo kRoles[] = {
    {TensorRole::kTokenEmbedding, TensorClass::kEmbedding, "token embedding"},
    {TensorRole::kPositionEmbedding, TensorClass::kEmbedding, "positions"},
    {TensorRole::kAttentionQ, TensorClass::kAttention, "attn q"},
    {TensorRole::kAttentionK, TensorClass::kAttention, "attn k"},
    {TensorRole::kAttentionV, TensorClass::kAttention, "attn v"},
    {TensorRole::kAttentionQkv, TensorClass::kAttention, "attn qkv"},
    {TensorRole::kAttentionOut, TensorClass::kAttention, "attn out"},
    {TensorRole::kAttentionOther, TensorClass::kAttention, "attn other"},
    {TensorRole::kFfnGate, TensorClass::kFfn, "ffn gate"},
    {TensorRole::kFfnUp, TensorClass::kFfn, "ffn up"},
    {TensorRole::kFfnDown, TensorClass::kFfn, "ffn down"},
    {TensorRole::kFfnDownT, TensorClass::kFfn, "ffn down_t"},
    {TensorRole::kFfnRecords, TensorClass::kFfn, "ffn records"},
    {TensorRole::kFfnOther, TensorClass::kFfn, "ffn other"},
    {TensorRole::kExpertRouter, TensorClass::kExperts, "router"},
    {TensorRole::kExpertGate, TensorClass::kExperts, "expert gate"},
    {TensorRole::kExpertUp, TensorClass::kExperts, "expert up"},
    {TensorRole::kExpertDown, TensorClass::kExperts, "expert down"},
    {TensorRole::kExpertShared, TensorClass::kExperts, "shared expert"},
    {TensorRole::kPredictorUp, TensorClass::kPredictor, "predictor up"},
    {TensorRole::kPredictorDown, TensorClass::kPredictor, "predictor down"},
    {TensorRole::kPredictorFree, TensorClass::kPredictor,
     "training-free predictor"},
    {TensorRole::kNorm, TensorClass::kNorm, "norms"},
    {TensorRole::kHead, TensorClass::kHead, "head"},
    {TensorRole::kPlacement, TensorClass::kOther, "placement"},
    {TensorRole::kFindings, TensorClass::kOther, "findings"},
    {TensorRole::kOther, TensorClass::kOther, "other"},
};
static_assert(std::size(kRoles) == kNumTensorRoles);

const RoleInfo& InfoOf(TensorRole role) {
  const RoleInfo& info = kRoles[static_cast<size_t>(role)];
  TC_DCHECK(info.role == role);
  return info;
}

// Between "blk.N." and ".weight": tensors that no forward pass here binds.
struct StemRole {
  std::string_view stem;
  TensorRole role;
};
constexpr StemRole kOtherStems[] = {
    {"exp_probs_b", TensorRole::kExpertRouter},
    {"gpu_idx", TensorRole::kPlacement},
    {"gpu_bucket", TensorRole::kPlacement},
    {"ffn_reorder_perms", TensorRole::kPlacement},
};

TensorRole RoleOf(std::string_view stem) {
  const TensorRole bound = model::UseOf(stem);
  if (bound != TensorRole::kOther) return bound;
  const auto* const found =
      std::ranges::find(kOtherStems, stem, &StemRole::stem);
  if (found != std::end(kOtherStems)) return found->role;
  const auto contains = [stem](std::string_view part) {
    return stem.find(part) != std::string_view::npos;
  };
  // Norms first: "attn_q_norm" is one of them, not a q.
  if (contains("norm")) return TensorRole::kNorm;
  if (contains("_shexp")) return TensorRole::kExpertShared;
  if (stem.starts_with("attn_")) return TensorRole::kAttentionOther;
  if (stem.starts_with("ffn_")) return TensorRole::kFfnOther;
  return TensorRole::kOther;
}

// The role of one expert's matrix, as older files name it.
TensorRole ExpertRoleOf(TensorRole role) {
  switch (role) {
    case TensorRole::kFfnGate:
      return TensorRole::kExpertGate;
    case TensorRole::kFfnUp:
      return TensorRole::kExpertUp;
    case TensorRole::kFfnDown:
      return TensorRole::kExpertDown;
    default:
      return role;
  }
}

std::vector<std::string_view> Parts(std::string_view name) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    parts.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::optional<int> Number(std::string_view text) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number < 0) return std::nullopt;
  return number;
}

}  // namespace

const char* NameOf(TensorClass tensor_class) {
  switch (tensor_class) {
    case TensorClass::kEmbedding:
      return "embedding";
    case TensorClass::kAttention:
      return "attention";
    case TensorClass::kFfn:
      return "ffn";
    case TensorClass::kExperts:
      return "experts";
    case TensorClass::kPredictor:
      return "predictor";
    case TensorClass::kNorm:
      return "norms";
    case TensorClass::kHead:
      return "head";
    case TensorClass::kOther:
      return "other";
  }
  return "";
}

const char* NameOf(TensorRole role) { return InfoOf(role).name; }

TensorClass ClassOf(TensorRole role) { return InfoOf(role).tensor_class; }

TensorPlace PlaceOf(std::string_view tensor_name) {
  TensorPlace place{.group_name = std::string(tensor_name)};
  const std::vector<std::string_view> parts = Parts(tensor_name);
  // Where the stem is: behind "blk.N", which in models of several parts has a
  // prefix ("enc.blk.0.attn_q.weight"). Those are no layers of one stack.
  size_t stem_at = 0;
  const auto block = std::ranges::find(parts, "blk");
  if (parts.end() - block >= 3) {
    const auto block_at = static_cast<size_t>(block - parts.begin());
    const std::optional<int> number = Number(parts[block_at + 1]);
    if (number.has_value()) {
      stem_at = block_at + 2;
      if (block_at == 0 && *number < kMaxNamedLayers) place.layer = number;
    }
  }
  place.role = RoleOf(parts[stem_at]);
  if (stem_at > 0 && stem_at + 3 == parts.size() &&
      Number(parts[stem_at + 1]).has_value()) {
    place.role = ExpertRoleOf(place.role);
    const auto expert_at =
        static_cast<size_t>(parts[stem_at + 1].data() - tensor_name.data());
    place.group_name.replace(expert_at, parts[stem_at + 1].size(), "*");
  }
  return place;
}

}  // namespace thermocline::inspect
