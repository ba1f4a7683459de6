#include "model/weights.h"

#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/quote.h"
#include "model/bundle.h"
#include "model/predictor_weights.h"
#include "model/prepared_names.h"
#include "model/prepared_weights.h"
#include "model/tensor_binder.h"
#include "tensor/codec.h"

namespace thermocline::model {
namespace {

using enum Need;

Need RequiredIf(bool condition) { return condition ? kRequired : kForbidden; }
Need OptionalIf(bool condition) { return condition ? kOptional : kForbidden; }

Need OtherBias(const Config& config) {
  return config.other_biases ? kRequired : kOptional;
}

// The weight and, for LayerNorm, the bias of a norm.
Status BindNorm(TensorBinder& binder, const Config& config,
                const std::string& name, Need need, TensorView& weight,
                TensorView& bias) {
  const bool has_bias = config.norm == NormKind::kLayer && need != kForbidden;
  const bool is_there = binder.Has(name + ".weight");
  TC_ASSIGN_OR_RETURN(weight,
                      binder.TakeVector(name + ".weight", config.width, need));
  TC_ASSIGN_OR_RETURN(
      bias, binder.TakeVector(
                name + ".bias", config.width,
                RequiredIf(has_bias && (is_there || need == kRequired))));
  return {};
}

struct QkvRows {
  int64_t q, k, v;
};
QkvRows RowsOfQkv(const Config& config) {
  return {config.num_heads * config.key_width,
          config.num_kv_heads * config.key_width,
          config.num_kv_heads * config.value_width};
}

// One matrix whose rows are those of q, k and v one after the other.
Status BindFusedQkv(TensorBinder& binder, const Config& config,
                    const std::string& prefix, AttentionWeights& attention) {
  const auto [q, k, v] = RowsOfQkv(config);
  TC_ASSIGN_OR_RETURN(const TensorView weight,
                      binder.TakeMatrix(prefix + "attn_qkv.weight", q + k + v,
                                        config.width, kRequired));
  TC_ASSIGN_OR_RETURN(
      const TensorView bias,
      binder.TakeVector(prefix + "attn_qkv.bias", q + k + v,
                        config.qkv_bias ? kRequired : kOptional));
  attention.q = SliceRows(weight, 0, q);
  attention.k = SliceRows(weight, q, k);
  attention.v = SliceRows(weight, q + k, v);
  attention.q_bias = SliceVector(bias, 0, q);
  attention.k_bias = SliceVector(bias, q, k);
  attention.v_bias = SliceVector(bias, q + k, v);
  return {};
}

Status BindSeparateQkv(TensorBinder& binder, const Config& config,
                       const std::string& prefix, AttentionWeights& attention) {
  const auto [q, k, v] = RowsOfQkv(config);
  struct Role {
    const char* name;
    int64_t num_rows;
    TensorView& weight;
    TensorView& bias;
  };
  for (const Role& role : {Role{"attn_q", q, attention.q, attention.q_bias},
                           Role{"attn_k", k, attention.k, attention.k_bias},
                           Role{"attn_v", v, attention.v, attention.v_bias}}) {
    const std::string name = prefix + role.name;
    TC_ASSIGN_OR_RETURN(role.weight,
                        binder.TakeMatrix(name + ".weight", role.num_rows,
                                          config.width, kRequired));
    TC_ASSIGN_OR_RETURN(
        role.bias, binder.TakeVector(name + ".bias", role.num_rows,
                                     config.qkv_bias ? kRequired : kOptional));
  }
  return {};
}

Status BindAttention(TensorBinder& binder, const Config& config,
                     const std::string& prefix, AttentionWeights& attention) {
  if (binder.Has(prefix + "attn_qkv.weight")) {
    TC_RETURN_IF_ERROR(BindFusedQkv(binder, config, prefix, attention));
  } else {
    TC_RETURN_IF_ERROR(BindSeparateQkv(binder, config, prefix, attention));
  }
  const std::string out = prefix + "attn_output";
  TC_ASSIGN_OR_RETURN(
      attention.out,
      binder.TakeMatrix(out + ".weight", config.width,
                        config.num_heads * config.value_width, kRequired));
  TC_ASSIGN_OR_RETURN(
      attention.out_bias,
      binder.TakeVector(out + ".bias", config.width, OtherBias(config)));
  return {};
}

// A parallel block has one norm for both halves, or a second one that feeds
// attention (Falcon-40B).
Status BindNorms(TensorBinder& binder, const Config& config,
                 const std::string& prefix, LayerWeights& layer) {
  AttentionWeights& attention = layer.attention;
  FfnWeights& ffn = layer.ffn;
  TC_RETURN_IF_ERROR(BindNorm(binder, config, prefix + "attn_norm", kRequired,
                              attention.norm, attention.norm_bias));
  if (!config.parallel_block) {
    return BindNorm(binder, config, prefix + "ffn_norm", kRequired, ffn.norm,
                    ffn.norm_bias);
  }
  ffn.norm = attention.norm;
  ffn.norm_bias = attention.norm_bias;
  TensorView second;
  TensorView second_bias;
  TC_RETURN_IF_ERROR(BindNorm(binder, config, prefix + "attn_norm_2", kOptional,
                              second, second_bias));
  if (second) {
    attention.norm = second;
    attention.norm_bias = second_bias;
  }
  return {};
}

Status BindFfnMatrices(TensorBinder& binder, const Config& config,
                       const std::string& prefix, const std::string& suffix,
                       FfnMatrices& matrices) {
  const int64_t width = config.width;
  const int64_t ffn_width = config.ffn_width;
  TC_ASSIGN_OR_RETURN(matrices.gate,
                      binder.TakeMatrix(prefix + "ffn_gate" + suffix, ffn_width,
                                        width, RequiredIf(config.ffn.gated)));
  TC_ASSIGN_OR_RETURN(matrices.up,
                      binder.TakeMatrix(prefix + "ffn_up" + suffix, ffn_width,
                                        width, kRequired));
  const std::string transposed = prefix + "ffn_down_t" + suffix;
  TC_ASSIGN_OR_RETURN(matrices.down_t, binder.TakeMatrix(transposed, ffn_width,
                                                         width, kOptional));
  TC_ASSIGN_OR_RETURN(
      matrices.down,
      binder.TakeMatrix(prefix + "ffn_down" + suffix, width, ffn_width,
                        matrices.down_t ? kOptional : kRequired));
  return {};
}

Status BindFfn(TensorBinder& binder, const Config& config, int64_t layer_idx,
               FfnWeights& ffn) {
  const std::string prefix = fmt::format("blk.{}.", layer_idx);
  if (config.records.empty()) {
    TC_RETURN_IF_ERROR(BindFfnMatrices(binder, config, prefix, ".weight", ffn));
  } else {
    TC_RETURN_IF_ERROR(BindRecords(binder, config, layer_idx, ffn));
  }
  TC_ASSIGN_OR_RETURN(
      ffn.gate_bias,
      binder.TakeVector(prefix + "ffn_gate.bias", config.ffn_width,
                        OptionalIf(config.ffn.gated)));
  TC_ASSIGN_OR_RETURN(
      ffn.up_bias, binder.TakeVector(prefix + "ffn_up.bias", config.ffn_width,
                                     OtherBias(config)));
  const bool is_transposed = binder.Has(prefix + "ffn_down_t.bias");
  TC_ASSIGN_OR_RETURN(
      ffn.down_bias,
      binder.TakeVector(
          prefix + (is_transposed ? "ffn_down_t.bias" : "ffn_down.bias"),
          config.width, OtherBias(config)));
  return {};
}

// Today's files stack the experts' matrices; those from before April 2024 have
// a tensor for each ("ffn_up.3.weight").
Status BindExperts(TensorBinder& binder, const Config& config,
                   int64_t layer_idx, FfnWeights& ffn) {
  const std::string prefix = fmt::format("blk.{}.", layer_idx);
  const int64_t num_experts = config.ffn.num_experts;
  TC_ASSIGN_OR_RETURN(
      ffn.router, binder.TakeMatrix(prefix + "ffn_gate_inp.weight", num_experts,
                                    config.width, kRequired));
  ffn.experts.resize(static_cast<size_t>(num_experts));
  if (!config.records.empty()) {
    return BindRecords(binder, config, layer_idx, ffn);
  }
  if (binder.Has(prefix + "ffn_up.0.weight")) {
    for (int64_t i = 0; i < num_experts; ++i) {
      TC_RETURN_IF_ERROR(BindFfnMatrices(binder, config, prefix,
                                         fmt::format(".{}.weight", i),
                                         ffn.experts[static_cast<size_t>(i)]));
    }
    return {};
  }
  struct Role {
    const char* name;
    int64_t num_rows, num_columns;
    TensorView FfnMatrices::* slot;
  };
  for (const Role& role :
       {Role{"ffn_gate_exps", config.ffn_width, config.width,
             &FfnMatrices::gate},
        Role{"ffn_up_exps", config.ffn_width, config.width, &FfnMatrices::up},
        Role{"ffn_down_exps", config.width, config.ffn_width,
             &FfnMatrices::down}}) {
    TC_ASSIGN_OR_RETURN(
        const auto matrices,
        binder.TakeStack(prefix + role.name + ".weight", num_experts,
                         role.num_rows, role.num_columns));
    for (size_t i = 0; i < matrices.size(); ++i) {
      ffn.experts[i].*role.slot = matrices[i];
    }
  }
  return {};
}

Status BindLayer(TensorBinder& binder, const Config& config, int64_t layer_idx,
                 LayerWeights& layer) {
  const std::string prefix = fmt::format("blk.{}.", layer_idx);
  TC_RETURN_IF_ERROR(BindNorms(binder, config, prefix, layer));
  TC_RETURN_IF_ERROR(BindAttention(binder, config, prefix, layer.attention));
  if (config.ffn.num_experts > 0) {
    TC_RETURN_IF_ERROR(BindExperts(binder, config, layer_idx, layer.ffn));
  } else {
    TC_RETURN_IF_ERROR(BindFfn(binder, config, layer_idx, layer.ffn));
  }
  TC_RETURN_IF_ERROR(BindPrepared(binder, config, layer_idx, layer));
  TC_ASSIGN_OR_RETURN(layer.predictor,
                      BindPredictor(binder, config, layer_idx));
  return {};
}

// Copied, since they are few and read as floats.
Result<std::vector<float>> TakeRopeFactors(TensorBinder& binder,
                                           const Config& config) {
  constexpr char kName[] = "rope_freqs.weight";
  TC_ASSIGN_OR_RETURN(
      const TensorView view,
      binder.TakeVector(kName, config.rope.width / 2,
                        OptionalIf(config.rope.kind != RopeKind::kNone)));
  if (!view) return std::vector<float>();
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
    const std::string tensor =
        Quote(prepared::OfLayer(static_cast<int64_t>(i), prepared::kRecords));
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

Status BindEmbeddings(TensorBinder& binder, const Config& config,
                      Weights& weights) {
  TC_ASSIGN_OR_RETURN(weights.token_embedding,
                      binder.TakeMatrix("token_embd.weight", config.vocab_size,
                                        config.width, kRequired));
  const int64_t num_rows = config.num_positions + config.position_offset;
  TC_ASSIGN_OR_RETURN(
      const TensorView positions,
      binder.TakeMatrix("position_embd.weight", num_rows, config.width,
                        RequiredIf(config.num_positions > 0)));
  weights.position_embedding =
      SliceRows(positions, config.position_offset, config.num_positions);
  return {};
}

}  // namespace

Result<Weights> BindWeights(const gguf::File& file, const Config& config) {
  TensorBinder binder(file);
  Weights weights;
  TC_RETURN_IF_ERROR(BindEmbeddings(binder, config, weights));
  TC_RETURN_IF_ERROR(BindNorm(binder, config, "output_norm", kRequired,
                              weights.output_norm, weights.output_norm_bias));
  TC_ASSIGN_OR_RETURN(weights.head,
                      binder.TakeMatrix("output.weight", config.vocab_size,
                                        config.width, kOptional));
  weights.tied = !weights.head;
  if (weights.tied) weights.head = weights.token_embedding;
  TC_ASSIGN_OR_RETURN(weights.rope_freq_factors,
                      TakeRopeFactors(binder, config));
  for (int64_t i = 0; i < config.num_layers; ++i) {
    TC_RETURN_IF_ERROR(
        BindLayer(binder, config, i, weights.layers.emplace_back()));
  }
  TC_RETURN_IF_ERROR(CheckSampleCounts(file, weights.layers));
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
