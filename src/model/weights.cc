#include "model/weights.h"

#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/quote.h"
#include "model/bundle.h"
#include "model/predictor_weights.h"
#include "model/prepared_names.h"
#include "model/prepared_weights.h"
#include "model/tensor_binder.h"
#include "model/tensor_roles.h"
#include "tensor/codec.h"

namespace thermocline::model {
namespace {

using enum Need;

// What of a role is in the file, under `prefix`. The other tensor that the need
// for it depends on is likewise.
Need NeedOf(const TensorBinder& binder, const Config& config,
            const LayerSpec& layer, const std::string& prefix,
            const TensorRole& role) {
  const Need need = role.need(config, layer);
  if (role.beside == Beside::kNothing) return need;
  const bool is_there = binder.Has(prefix + std::string(role.other));
  switch (role.beside) {
    case Beside::kForbiddenWithout:
      return is_there ? need : kForbidden;
    case Beside::kForbiddenWith:
      return is_there ? kForbidden : need;
    default:
      return is_there && need == kRequired ? kOptional : need;
  }
}

Result<TensorView> TakeAs(TensorBinder& binder, const Config& config,
                          const LayerSpec& layer, const TensorRole& role,
                          const std::string& name, Need need) {
  const size_t num_columns = ExtentOf(role.columns, config, layer);
  if (role.form == TensorForm::kVector) {
    return binder.TakeVector(name, num_columns, need);
  }
  return binder.TakeMatrix(name, ExtentOf(role.rows, config, layer),
                           num_columns, need);
}

// A role's tensor, into its slot if it is there.
Status Bind(TensorBinder& binder, const Config& config, const LayerSpec& layer,
            const std::string& prefix, const TensorRole& role,
            TensorView& slot) {
  const Need need = NeedOf(binder, config, layer, prefix, role);
  TC_ASSIGN_OR_RETURN(const TensorView view,
                      TakeAs(binder, config, layer, role,
                             prefix + std::string(role.name), need));
  if (view) slot = view;
  return {};
}

// Binds the tensors of one layer.
class LayerBinder {
 public:
  LayerBinder(TensorBinder& binder, const Config& config, size_t layer_idx,
              LayerWeights& weights)
      : binder_(binder),
        config_(config),
        layer_(config.layers[layer_idx]),
        layer_idx_(layer_idx),
        prefix_(fmt::format("blk.{}.", layer_idx)),
        weights_(weights) {}

  Status Run() {
    for (const TensorRole& role : LayerRoles()) {
      if (const auto* attention =
              std::get_if<TensorView AttentionWeights::*>(&role.slot)) {
        TC_RETURN_IF_ERROR(BindTo(role, weights_.attention.**attention));
      } else if (const auto* ffn =
                     std::get_if<TensorView FfnWeights::*>(&role.slot)) {
        TC_RETURN_IF_ERROR(BindTo(role, weights_.ffn.**ffn));
      }
    }
    TC_RETURN_IF_ERROR(ShareNorm());
    if (binder_.Has(prefix_ + "attn_qkv.weight")) {
      TC_RETURN_IF_ERROR(BindFusedQkv());
    }
    TC_RETURN_IF_ERROR(BindFfn());
    TC_RETURN_IF_ERROR(BindPrepared(binder_, config_, layer_idx_, weights_));
    TC_ASSIGN_OR_RETURN(weights_.predictor,
                        BindPredictor(binder_, config_, layer_idx_));
    return {};
  }

 private:
  Status BindTo(const TensorRole& role, TensorView& slot) {
    return Bind(binder_, config_, layer_, prefix_, role, slot);
  }

  // The FFN of a parallel block reads what the first norm makes, whether
  // attention has a second one or not.
  Status ShareNorm() {
    if (!layer_.parallel) return {};
    TC_RETURN_IF_ERROR(
        BindTo(*FindRole("attn_norm.weight"), weights_.ffn.norm));
    return BindTo(*FindRole("attn_norm.bias"), weights_.ffn.norm_bias);
  }

  // One matrix whose rows are those of q, k and v one after the other.
  Status BindFusedQkv() {
    AttentionWeights& attention = weights_.attention;
    TensorView weight;
    TensorView bias;
    TC_RETURN_IF_ERROR(BindTo(*FindRole("attn_qkv.weight"), weight));
    TC_RETURN_IF_ERROR(BindTo(*FindRole("attn_qkv.bias"), bias));
    const size_t q = ExtentOf(Extent::kQRows, config_, layer_);
    const size_t k = ExtentOf(Extent::kKRows, config_, layer_);
    const size_t v = ExtentOf(Extent::kVRows, config_, layer_);
    attention.q = SliceRows(weight, 0, q);
    attention.k = SliceRows(weight, q, k);
    attention.v = SliceRows(weight, q + k, v);
    attention.q_bias = SliceVector(bias, 0, q);
    attention.k_bias = SliceVector(bias, q, k);
    attention.v_bias = SliceVector(bias, q + k, v);
    return {};
  }

  Status BindFfn() {
    weights_.ffn.experts.resize(layer_.ffn.num_experts);
    if (!config_.records.empty()) {
      return BindRecords(binder_, config_, layer_idx_, weights_.ffn);
    }
    const bool is_mixture = layer_.ffn.num_experts > 0;
    const bool one_by_one =
        is_mixture && binder_.Has(prefix_ + "ffn_up.0.weight");
    for (const TensorRole& role : LayerRoles()) {
      const auto* slot = std::get_if<TensorView FfnMatrices::*>(&role.slot);
      if (slot == nullptr) continue;
      if (!is_mixture) {
        TC_RETURN_IF_ERROR(BindTo(role, weights_.ffn.**slot));
      } else if (!one_by_one) {
        TC_RETURN_IF_ERROR(BindStack(role, *slot));
      }
    }
    return one_by_one ? BindExperts() : Status();
  }

  Status BindStack(const TensorRole& role, TensorView FfnMatrices::* slot) {
    if (role.need(config_, layer_) != kRequired) return {};
    TC_ASSIGN_OR_RETURN(
        const auto matrices,
        binder_.TakeStack(prefix_ + std::string(role.name),
                          layer_.ffn.num_experts,
                          ExtentOf(role.rows, config_, layer_),
                          ExtentOf(role.columns, config_, layer_)));
    for (size_t i = 0; i < matrices.size(); ++i) {
      weights_.ffn.experts[i].*slot = matrices[i];
    }
    return {};
  }

  // Files from before April 2024 have the tensors of an FFN for each expert,
  // "ffn_up.3.weight".
  Status BindExperts() {
    LayerSpec expert = layer_;
    expert.ffn.num_experts = 0;
    for (const TensorRole& role : LayerRoles()) {
      const auto* slot = std::get_if<TensorView FfnMatrices::*>(&role.slot);
      if (slot == nullptr || role.form == TensorForm::kStack) continue;
      for (size_t i = 0; i < weights_.ffn.experts.size(); ++i) {
        TC_RETURN_IF_ERROR(
            BindExpert(expert, role, i, weights_.ffn.experts[i].**slot));
      }
    }
    return {};
  }

  Status BindExpert(const LayerSpec& expert, const TensorRole& role, size_t i,
                    TensorView& slot) {
    const auto numbered = [&](std::string_view name) {
      const size_t end = name.rfind('.');
      return fmt::format("{}.{}{}", name.substr(0, end), i, name.substr(end));
    };
    TensorRole own = role;
    const std::string name = numbered(role.name);
    const std::string other = role.other.empty() ? "" : numbered(role.other);
    own.name = name;
    own.other = other;
    return Bind(binder_, config_, expert, prefix_, own, slot);
  }

  TensorBinder& binder_;
  const Config& config_;
  const LayerSpec& layer_;
  size_t layer_idx_;
  std::string prefix_;
  LayerWeights& weights_;
};

// Copied, since they are few and read as floats.
Result<std::vector<float>> TakeRopeFactors(TensorBinder& binder,
                                           const Config& config) {
  constexpr char kName[] = "rope_freqs.weight";
  TensorView view;
  TC_RETURN_IF_ERROR(
      Bind(binder, config, LayerSpec(), "", *FindRole(kName), view));
  if (!view) return std::vector<float>();
  if (config.ropes.size() > 1) {
    return Fail(ErrorCode::kUnsupported,
                "{}: tensor \"{}\" is for heads of one width, and those of "
                "this model's layers differ",
                binder.file().path(), kName);
  }
  std::vector<float> factors(view.shape.ne[0]);
  std::memcpy(factors.data(), view.data, view.num_bytes());
  for (size_t i = 0; i < factors.size(); ++i) {
    if (!std::isfinite(factors[i]) || factors[i] == 0.0f) {
      return Fail(ErrorCode::kCorrupt,
                  "{}: tensor \"{}\": element {} is {}; angles are divided by "
                  "it",
                  binder.file().path(), kName, i, factors[i]);
    }
  }
  return factors;
}

// What CheckTensors looks at; the name is as messages have it.
struct NamedView {
  std::string name;
  TensorView view;
};

// The parts of the FFNs that lie in records, which are bytes to the file.
void AddRecordParts(std::span<const LayerWeights> layers,
                    std::vector<NamedView>& views) {
  for (size_t i = 0; i < layers.size(); ++i) {
    const FfnWeights& ffn = layers[i].ffn;
    const std::string tensor = Quote(prepared::OfLayer(i, prepared::kRecords));
    const std::span<const FfnMatrices> experts = ExpertsOf(ffn);
    for (size_t expert = 0; expert < experts.size(); ++expert) {
      const FfnMatrices& matrices = experts[expert];
      if (!matrices.bundled) continue;
      const std::string owner =
          ffn.experts.empty() ? tensor
                              : fmt::format("{}, expert {}", tensor, expert);
      // Gates that are a matrix are a tensor too.
      if (matrices.gate && matrices.gate.stride_bytes != 0) {
        views.push_back({owner + ", gate rows", matrices.gate});
      }
      views.push_back({owner + ", up rows", matrices.up});
      views.push_back({owner + ", down columns", matrices.down_t});
    }
  }
}

std::vector<NamedView> ListWeights(const gguf::File& file,
                                   std::span<const LayerWeights> layers) {
  std::vector<NamedView> views;
  for (const gguf::TensorInfo& info : file.tensors()) {
    if (!InfoOf(info.dtype).can_compute) continue;
    views.push_back(
        {Quote(info.name), TensorView{info.dtype, info.shape, info.data}});
  }
  AddRecordParts(layers, views);
  return views;
}

}  // namespace

Result<Weights> BindWeights(const gguf::File& file, const Config& config) {
  TensorBinder binder(file);
  Weights weights;
  for (const TensorRole& role : ModelRoles()) {
    const auto* slot = std::get_if<TensorView Weights::*>(&role.slot);
    if (slot == nullptr) continue;
    TC_RETURN_IF_ERROR(
        Bind(binder, config, LayerSpec(), "", role, weights.**slot));
  }
  weights.position_embedding = SliceRows(
      weights.position_embedding, static_cast<size_t>(config.position_offset),
      static_cast<size_t>(config.num_positions));
  weights.tied = !weights.head;
  if (weights.tied) weights.head = weights.token_embedding;
  TC_ASSIGN_OR_RETURN(weights.rope_freq_factors,
                      TakeRopeFactors(binder, config));
  for (size_t i = 0; i < config.num_layers; ++i) {
    TC_RETURN_IF_ERROR(
        LayerBinder(binder, config, i, weights.layers.emplace_back()).Run());
  }
  TC_RETURN_IF_ERROR(CheckSampleCounts(file, weights.layers));
  TC_RETURN_IF_ERROR(CheckSourceNeurons(file, weights.layers));
  TC_RETURN_IF_ERROR(binder.CheckAllTaken(config.architecture));
  return weights;
}

Status CheckTensors(const gguf::File& file,
                    std::span<const LayerWeights> layers,
                    const ProgressFn& progress) {
  const std::vector<NamedView> views = ListWeights(file, layers);
  uint64_t num_total = 0;
  for (const NamedView& named : views) num_total += named.view.num_bytes();
  uint64_t num_done = 0;
  for (const auto& [name, view] : views) {
    ReportProgress(progress, "checking tensors", num_done, num_total);
    num_done += view.num_bytes();
    const auto element = FindNonFinite(view);
    if (element) {
      return Fail(ErrorCode::kCorrupt,
                  "{}: tensor {}: element {} is not finite (a damaged file?)",
                  file.path(), name, *element);
    }
  }
  ReportProgress(progress, "checking tensors", num_total, num_total);
  return {};
}

}  // namespace thermocline::model
