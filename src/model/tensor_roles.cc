#include "model/tensor_roles.h"

#include <algorithm>
#include <type_traits>

#include "model/bundle.h"
#include "model/prepared_names.h"

namespace thermocline::model {
namespace {

using enum TensorForm;
using enum Extent;
using Use = TensorUse;
using A = AttentionWeights;
using F = FfnWeights;
using M = FfnMatrices;
using P = PredictorWeights;
using Free = TrainingFreeWeights;

Need RequiredIf(bool condition) {
  return condition ? Need::kRequired : Need::kForbidden;
}
Need OptionalIf(bool condition) {
  return condition ? Need::kOptional : Need::kForbidden;
}

// When a tensor must be there.
Need Always(const Config&, const LayerSpec&) { return Need::kRequired; }
Need Maybe(const Config&, const LayerSpec&) { return Need::kOptional; }
Need LearnsPositions(const Config& config, const LayerSpec&) {
  return RequiredIf(config.num_positions > 0);
}
Need MayRotate(const Config& config, const LayerSpec&) {
  return OptionalIf(!config.ropes.empty());
}
Need HasLayerNorm(const Config& config, const LayerSpec&) {
  return RequiredIf(config.norm == NormKind::kLayer);
}
Need IsSequential(const Config&, const LayerSpec& layer) {
  return RequiredIf(!layer.parallel);
}
Need HasSequentialLayerNorm(const Config& config, const LayerSpec& layer) {
  return RequiredIf(!layer.parallel && config.norm == NormKind::kLayer);
}
Need MayBeParallel(const Config&, const LayerSpec& layer) {
  return OptionalIf(layer.parallel);
}
Need HasQkNorm(const Config&, const LayerSpec& layer) {
  return RequiredIf(layer.attention.qk_norm == QkNorm::kPerHead);
}
Need QkvBias(const Config& config, const LayerSpec&) {
  return config.qkv_bias ? Need::kRequired : Need::kOptional;
}
Need OtherBias(const Config& config, const LayerSpec&) {
  return config.other_biases ? Need::kRequired : Need::kOptional;
}

// Of one FFN for all tokens, and of mixtures.
bool IsMixture(const LayerSpec& layer) { return layer.ffn.num_experts > 0; }
Need IsGated(const Config&, const LayerSpec& layer) {
  return RequiredIf(layer.ffn.gated && !IsMixture(layer));
}
Need IsDense(const Config&, const LayerSpec& layer) {
  return RequiredIf(!IsMixture(layer));
}
Need MayBeDense(const Config&, const LayerSpec& layer) {
  return OptionalIf(!IsMixture(layer));
}
Need GateBias(const Config&, const LayerSpec& layer) {
  return OptionalIf(layer.ffn.gated && !IsMixture(layer));
}
Need FfnBias(const Config& config, const LayerSpec& layer) {
  return IsMixture(layer) ? Need::kForbidden : OtherBias(config, layer);
}
Need HasExperts(const Config&, const LayerSpec& layer) {
  return RequiredIf(IsMixture(layer));
}
Need HasGatedExperts(const Config&, const LayerSpec& layer) {
  return RequiredIf(layer.ffn.gated && IsMixture(layer));
}

constexpr TensorRole kModelRoles[] = {
    {"token_embd.weight", Use::kTokenEmbedding, kMatrix, kVocab, kWidth, Always,
     &Weights::token_embedding},
    {"position_embd.weight", Use::kPositionEmbedding, kMatrix, kPositions,
     kWidth, LearnsPositions, &Weights::position_embedding},
    {"output_norm.weight", Use::kNorm, kVector, kOne, kWidth, Always,
     &Weights::output_norm},
    {"output_norm.bias", Use::kNorm, kVector, kOne, kWidth, HasLayerNorm,
     &Weights::output_norm_bias},
    {"output.weight", Use::kHead, kMatrix, kVocab, kWidth, Maybe,
     &Weights::head},
    {"rope_freqs.weight",
     Use::kOther,
     kVector,
     kOne,
     kRopePairs,
     MayRotate,
     {}},
};

// A parallel block has one norm for both halves, or a second one that feeds
// attention (Falcon-40B). q, k and v may be one tensor.
constexpr TensorRole kLayerRoles[] = {
    {"attn_norm.weight", Use::kNorm, kVector, kOne, kWidth, Always, &A::norm},
    {"attn_norm.bias", Use::kNorm, kVector, kOne, kWidth, HasLayerNorm,
     &A::norm_bias},
    {"attn_norm_2.weight", Use::kNorm, kVector, kOne, kWidth, MayBeParallel,
     &A::norm},
    {"attn_norm_2.bias", Use::kNorm, kVector, kOne, kWidth, HasLayerNorm,
     &A::norm_bias, Beside::kForbiddenWithout, "attn_norm_2.weight"},
    {"attn_qkv.weight",
     Use::kAttentionQkv,
     kMatrix,
     kQkvRows,
     kWidth,
     Maybe,
     {}},
    {"attn_qkv.bias", Use::kAttentionQkv, kVector, kOne, kQkvRows, QkvBias, {}},
    {"attn_q.weight", Use::kAttentionQ, kMatrix, kQRows, kWidth, Always, &A::q,
     Beside::kForbiddenWith, "attn_qkv.weight"},
    {"attn_q.bias", Use::kAttentionQ, kVector, kOne, kQRows, QkvBias,
     &A::q_bias, Beside::kForbiddenWith, "attn_qkv.weight"},
    {"attn_k.weight", Use::kAttentionK, kMatrix, kKRows, kWidth, Always, &A::k,
     Beside::kForbiddenWith, "attn_qkv.weight"},
    {"attn_k.bias", Use::kAttentionK, kVector, kOne, kKRows, QkvBias,
     &A::k_bias, Beside::kForbiddenWith, "attn_qkv.weight"},
    {"attn_v.weight", Use::kAttentionV, kMatrix, kVRows, kWidth, Always, &A::v,
     Beside::kForbiddenWith, "attn_qkv.weight"},
    {"attn_v.bias", Use::kAttentionV, kVector, kOne, kVRows, QkvBias,
     &A::v_bias, Beside::kForbiddenWith, "attn_qkv.weight"},
    {"attn_q_norm.weight", Use::kNorm, kVector, kOne, kKeyWidth, HasQkNorm,
     &A::q_norm},
    {"attn_k_norm.weight", Use::kNorm, kVector, kOne, kKeyWidth, HasQkNorm,
     &A::k_norm},
    {"attn_output.weight", Use::kAttentionOut, kMatrix, kWidth, kHeadOut,
     Always, &A::out},
    {"attn_output.bias", Use::kAttentionOut, kVector, kOne, kWidth, OtherBias,
     &A::out_bias},
    {"ffn_norm.weight", Use::kNorm, kVector, kOne, kWidth, IsSequential,
     &F::norm},
    {"ffn_norm.bias", Use::kNorm, kVector, kOne, kWidth, HasSequentialLayerNorm,
     &F::norm_bias},
    {"ffn_gate.weight", Use::kFfnGate, kMatrix, kFfnWidth, kWidth, IsGated,
     &M::gate},
    {"ffn_up.weight", Use::kFfnUp, kMatrix, kFfnWidth, kWidth, IsDense, &M::up},
    {"ffn_down_t.weight", Use::kFfnDownT, kMatrix, kFfnWidth, kWidth,
     MayBeDense, &M::down_t},
    {"ffn_down.weight", Use::kFfnDown, kMatrix, kWidth, kFfnWidth, IsDense,
     &M::down, Beside::kOptionalWith, "ffn_down_t.weight"},
    {"ffn_gate.bias", Use::kFfnGate, kVector, kOne, kFfnWidth, GateBias,
     &F::gate_bias},
    {"ffn_up.bias", Use::kFfnUp, kVector, kOne, kFfnWidth, FfnBias,
     &F::up_bias},
    {"ffn_down.bias", Use::kFfnDown, kVector, kOne, kWidth, FfnBias,
     &F::down_bias, Beside::kForbiddenWith, "ffn_down_t.bias"},
    {"ffn_down_t.bias", Use::kFfnDownT, kVector, kOne, kWidth, MayBeDense,
     &F::down_bias},
    {"ffn_gate_inp.weight", Use::kExpertRouter, kMatrix, kExperts, kWidth,
     HasExperts, &F::router},
    {"ffn_gate_exps.weight", Use::kExpertGate, kStack, kFfnWidth, kWidth,
     HasGatedExperts, &M::gate},
    {"ffn_up_exps.weight", Use::kExpertUp, kStack, kFfnWidth, kWidth,
     HasExperts, &M::up},
    {"ffn_down_exps.weight", Use::kExpertDown, kStack, kWidth, kFfnWidth,
     HasExperts, &M::down},
    {prepared::kRecords, Use::kFfnRecords, kData, kNeurons, kRank, Maybe, {}},
    // PowerInfer's predictors, KAIROX's, ours: predictor_weights.cc binds them.
    {"fc1.weight", Use::kPredictorUp, kMatrix, kRank, kWidth, Maybe, &P::up},
    {"fc2.weight", Use::kPredictorDown, kMatrix, kNeurons, kRank, Maybe,
     &P::down},
    {"ffn_pred_up.weight", Use::kPredictorUp, kMatrix, kRank, kWidth, Maybe,
     &P::up},
    {"ffn_pred_up.bias", Use::kPredictorUp, kVector, kOne, kRank, Maybe,
     &P::up_bias},
    {"ffn_pred_down.weight", Use::kPredictorDown, kMatrix, kNeurons, kRank,
     Maybe, &P::down},
    {"ffn_pred_down.bias", Use::kPredictorDown, kVector, kOne, kNeurons, Maybe,
     &P::down_bias},
    {"tc_pred_up.weight", Use::kPredictorUp, kMatrix, kRank, kWidth, Maybe,
     &P::up},
    {"tc_pred_up.bias", Use::kPredictorUp, kVector, kOne, kRank, Maybe,
     &P::up_bias},
    {"tc_pred_down.weight", Use::kPredictorDown, kMatrix, kNeurons, kRank,
     Maybe, &P::down},
    {"tc_pred_down.bias", Use::kPredictorDown, kVector, kOne, kNeurons, Maybe,
     &P::down_bias},
    {prepared::kFreeSigns, Use::kPredictorFree, kData, kNeurons, kWidth, Maybe,
     &Free::signs},
    {prepared::kFreeUp, Use::kPredictorFree, kMatrix, kRank, kWidth, Maybe,
     &Free::up},
    {prepared::kFreeDown, Use::kPredictorFree, kMatrix, kNeurons, kRank, Maybe,
     &Free::down},
    {prepared::kFreeBias, Use::kPredictorFree, kVector, kOne, kNeurons, Maybe,
     &Free::bias},
    {prepared::kTestInputs, Use::kFindings, kData, kRank, kWidth, Maybe, {}},
    {prepared::kTestFired, Use::kFindings, kData, kRank, kNeurons, Maybe, {}},
    {prepared::kTestCandidates,
     Use::kFindings,
     kData,
     kRank,
     kNeurons,
     Maybe,
     {}},
    {prepared::kTestFree, Use::kFindings, kData, kRank, kNeurons, Maybe, {}},
    {prepared::kProfileCounts,
     Use::kFindings,
     kData,
     kOne,
     kNeurons,
     Maybe,
     {}},
    {prepared::kOrder, Use::kFindings, kData, kOne, kNeurons, Maybe, {}},
    {prepared::kSourceNeurons,
     Use::kFindings,
     kData,
     kOne,
     kNeurons,
     Maybe,
     {}},
};

// "attn_q" of "attn_q.weight"; "tc_order" is whole.
std::string_view StemOf(std::string_view name) {
  return name.substr(0, name.rfind('.'));
}

// Where several names have a slot, the first of them speaks for all.
bool IsFirstOfSlot(std::span<const TensorRole> roles, const TensorRole& role) {
  return std::ranges::find(roles, role.slot, &TensorRole::slot) ==
         roles.begin() + (&role - roles.data());
}

}  // namespace

size_t ExtentOf(Extent extent, const Config& config, const LayerSpec& layer) {
  const AttentionSpec& a = layer.attention;
  switch (extent) {
    case kOne:
      return 1;
    case kVocab:
      return config.vocab_size;
    case kPositions:
      return static_cast<size_t>(config.num_positions + config.position_offset);
    case kWidth:
      return config.width;
    case kQRows:
      return a.num_heads * a.key_width;
    case kKRows:
      return a.num_kv_heads * a.key_width;
    case kVRows:
      return a.num_kv_heads * a.value_width;
    case kQkvRows:
      return ExtentOf(kQRows, config, layer) + ExtentOf(kKRows, config, layer) +
             ExtentOf(kVRows, config, layer);
    case kHeadOut:
      return a.num_heads * a.value_width;
    case kKeyWidth:
      return a.key_width;
    case kFfnWidth:
      return layer.ffn.width;
    case kNeurons:
      return NumNeurons(layer.ffn);
    case kExperts:
      return layer.ffn.num_experts;
    case kRopePairs:
      return config.ropes.empty() ? 0 : config.ropes.front().width / 2;
    case kRank:
      break;
  }
  return 0;
}

std::span<const TensorRole> ModelRoles() { return kModelRoles; }
std::span<const TensorRole> LayerRoles() { return kLayerRoles; }

const TensorRole* FindRole(std::string_view name) {
  for (const auto roles : {ModelRoles(), LayerRoles()}) {
    const auto found = std::ranges::find(roles, name, &TensorRole::name);
    if (found != roles.end()) return &*found;
  }
  return nullptr;
}

TensorUse UseOf(std::string_view stem) {
  for (const auto roles : {ModelRoles(), LayerRoles()}) {
    for (const TensorRole& role : roles) {
      if (StemOf(role.name) == stem) return role.use;
    }
  }
  return TensorUse::kOther;
}

void ForEachModelTensor(const Weights& weights, const VisitTensor& visit) {
  for (const TensorRole& role : kModelRoles) {
    const auto* slot = std::get_if<TensorView Weights::*>(&role.slot);
    if (slot != nullptr) visit(role, weights.**slot);
  }
}

void ForEachLayerTensor(const LayerWeights& layer, const VisitTensor& visit) {
  for (const TensorRole& role : kLayerRoles) {
    if (!IsFirstOfSlot(kLayerRoles, role)) continue;
    std::visit(
        [&](auto slot) {
          using T = decltype(slot);
          if constexpr (std::is_same_v<T, TensorView A::*>) {
            visit(role, layer.attention.*slot);
          } else if constexpr (std::is_same_v<T, TensorView F::*>) {
            visit(role, layer.ffn.*slot);
          } else if constexpr (std::is_same_v<T, TensorView M::*>) {
            for (const M& matrices : ExpertsOf(layer.ffn)) {
              visit(role, matrices.*slot);
            }
          } else if constexpr (std::is_same_v<T, TensorView P::*>) {
            visit(role, layer.predictor.*slot);
          } else if constexpr (std::is_same_v<T, TensorView Free::*>) {
            visit(role, layer.training_free.*slot);
          }
        },
        role.slot);
  }
}

bool VectorsAreAligned(const Weights& weights) {
  bool all = true;
  const VisitTensor look = [&](const TensorRole& role, const TensorView& view) {
    all = all && (role.form != kVector ||
                  reinterpret_cast<uintptr_t>(view.data) % alignof(float) == 0);
  };
  ForEachModelTensor(weights, look);
  for (const LayerWeights& layer : weights.layers) {
    ForEachLayerTensor(layer, look);
  }
  return all;
}

}  // namespace thermocline::model
