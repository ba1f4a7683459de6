#include "convert/hf_llama.h"

#include <limits>
#include <utility>

#include "base/log.h"
#include "base/quote.h"
#include "convert/hf_config_fields.h"
#include "model/config.h"

namespace thermocline::convert {
namespace {

Status ReadSizes(const JsonFields& fields, HfConfig& config) {
  constexpr int64_t kMaxWidth = model::kMaxWidth;
  TC_ASSIGN_OR_RETURN(config.width,
                      fields.RequireInt("hidden_size", 1, kMaxWidth));
  TC_ASSIGN_OR_RETURN(config.ffn_width,
                      fields.RequireInt("intermediate_size", 1, kMaxWidth));
  TC_ASSIGN_OR_RETURN(
      config.num_layers,
      fields.RequireInt("num_hidden_layers", 1, model::kMaxLayers));
  TC_ASSIGN_OR_RETURN(config.num_heads,
                      fields.RequireInt("num_attention_heads", 1, kMaxWidth));
  TC_ASSIGN_OR_RETURN(const auto num_kv_heads,
                      fields.Int("num_key_value_heads", 1, config.num_heads));
  config.num_kv_heads = num_kv_heads.value_or(config.num_heads);
  TC_ASSIGN_OR_RETURN(const auto head_width,
                      fields.Int("head_dim", 2, kMaxWidth));
  config.head_width = head_width.value_or(0);
  TC_RETURN_IF_ERROR(
      CompleteHeads(fields, head_width ? "head_dim" : "num_attention_heads",
                    "num_key_value_heads", config));
  TC_ASSIGN_OR_RETURN(
      config.context_length,
      fields.RequireInt("max_position_embeddings", 1, kMaxInt32));
  TC_ASSIGN_OR_RETURN(config.vocab_size,
                      fields.Int("vocab_size", 1, kMaxInt32));
  return {};
}

// Of architectures that have some: num_experts is not 0 then.
Status ReadExperts(const JsonFields& fields, HfConfig& config) {
  if (config.num_experts == 0) return {};
  TC_ASSIGN_OR_RETURN(
      config.num_experts,
      fields.RequireInt("num_local_experts", 1, model::kMaxExperts));
  TC_ASSIGN_OR_RETURN(
      config.num_experts_used,
      fields.RequireInt("num_experts_per_tok", 1, config.num_experts));
  return {};
}

// Within the window full attention gives the same: the context ends there.
Status ApplySlidingWindow(const JsonFields& fields, HfConfig& config) {
  TC_ASSIGN_OR_RETURN(const auto is_used, fields.Bool("use_sliding_window"));
  TC_ASSIGN_OR_RETURN(
      const auto window,
      fields.Int("sliding_window", 0, std::numeric_limits<int64_t>::max()));
  if (!is_used.value_or(true) || window.value_or(0) == 0) return {};
  // Qwen2 has the key even where the switch, off by default, is not written.
  if (!is_used && config.architecture == "qwen2") return {};
  if (*window >= config.context_length) return {};
  LogWarning(
      "{}: attention is limited to {} tokens, which is not in this version; "
      "the context is cut from {} to that",
      fields.path(), *window, config.context_length);
  config.context_length = *window;
  return {};
}

// Bamboo's files say relu, and its code applies it to both branches.
Status ApplyDoubleRelu(const JsonFields& fields, HfConfig& config) {
  if (config.architecture != "bamboo") return {};
  if (config.activation != Activation::kRelu &&
      config.activation != Activation::kDRelu) {
    return Fail(ErrorCode::kUnsupported,
                "{}: key \"hidden_act\" is not relu, which Bamboo models are "
                "made with",
                fields.path());
  }
  config.activation = Activation::kDRelu;
  return {};
}

std::vector<Part> AttentionParts(const HfConfig& config) {
  using enum Presence;
  const auto d = static_cast<uint64_t>(config.width);
  const auto head = static_cast<uint64_t>(config.head_width);
  const uint64_t q = static_cast<uint64_t>(config.num_heads) * head;
  const uint64_t kv = static_cast<uint64_t>(config.num_kv_heads) * head;
  const Presence bias = config.qkv_bias ? kRequired : kOptional;
  std::vector<uint32_t> q_rows;
  std::vector<uint32_t> k_rows;
  if (config.rope_kind == RopeKind::kNorm) {
    q_rows = RowsOfHalves(q, head);
    k_rows = RowsOfHalves(kv, head);
  }
  return {
      {"input_layernorm.weight", "attn_norm.weight", {d}},
      {"self_attn.q_proj.weight", "attn_q.weight", {q, d}, kRequired, q_rows},
      {"self_attn.q_proj.bias", "attn_q.bias", {q}, bias, q_rows},
      {"self_attn.k_proj.weight", "attn_k.weight", {kv, d}, kRequired, k_rows},
      {"self_attn.k_proj.bias", "attn_k.bias", {kv}, bias, k_rows},
      {"self_attn.v_proj.weight", "attn_v.weight", {kv, d}},
      {"self_attn.v_proj.bias", "attn_v.bias", {kv}, bias},
      {"self_attn.o_proj.weight", "attn_output.weight", {d, q}},
      {"self_attn.o_proj.bias", "attn_output.bias", {d}, kOptional},
      {"post_attention_layernorm.weight", "ffn_norm.weight", {d}},
  };
}

std::vector<Part> FfnParts(const HfConfig& config) {
  using enum Presence;
  const auto d = static_cast<uint64_t>(config.width);
  const auto f = static_cast<uint64_t>(config.ffn_width);
  return {
      {"mlp.gate_proj.weight", "ffn_gate.weight", {f, d}},
      {"mlp.gate_proj.bias", "ffn_gate.bias", {f}, kOptional},
      {"mlp.up_proj.weight", "ffn_up.weight", {f, d}},
      {"mlp.up_proj.bias", "ffn_up.bias", {f}, kOptional},
      {"mlp.down_proj.weight", "ffn_down.weight", {d, f}},
      {"mlp.down_proj.bias", "ffn_down.bias", {d}, kOptional},
  };
}

std::vector<Part> ExpertParts(const HfConfig& config) {
  using enum Presence;
  const auto d = static_cast<uint64_t>(config.width);
  const auto f = static_cast<uint64_t>(config.ffn_width);
  const int64_t num = config.num_experts;
  const auto e = static_cast<uint64_t>(num);
  const std::string expert = "block_sparse_moe.experts.{}.";
  return {
      {"block_sparse_moe.gate.weight",
       "ffn_gate_inp.weight",
       {e, d},
       kRequired,
       {},
       0,
       Storage::kF32},
      {expert + "w1.weight",
       "ffn_gate_exps.weight",
       {f, d},
       kRequired,
       {},
       num},
      {expert + "w3.weight", "ffn_up_exps.weight", {f, d}, kRequired, {}, num},
      {expert + "w2.weight",
       "ffn_down_exps.weight",
       {d, f},
       kRequired,
       {},
       num},
  };
}

}  // namespace

Status ReadLlamaConfig(const JsonFields& fields, HfConfig& config) {
  TC_RETURN_IF_ERROR(ReadSizes(fields, config));
  TC_RETURN_IF_ERROR(ReadExperts(fields, config));
  TC_RETURN_IF_ERROR(ReadActivation(fields, "hidden_act", nullptr, config));
  TC_RETURN_IF_ERROR(ApplyDoubleRelu(fields, config));
  constexpr double kMixtralTheta = 1e6;
  TC_ASSIGN_OR_RETURN(
      config.rope,
      ReadHfRope(fields, config.context_length,
                 config.num_experts > 0 ? kMixtralTheta : kUsualTheta));
  // After the rotary embedding, which scales by the whole context.
  TC_RETURN_IF_ERROR(ApplySlidingWindow(fields, config));
  TC_ASSIGN_OR_RETURN(config.norm_epsilon,
                      ReadEpsilon(fields, "rms_norm_eps", std::nullopt));
  config.tied_head = config.tied_head.value_or(false);
  return {};
}

std::vector<uint32_t> RowsOfHalves(uint64_t num_rows, uint64_t head_width) {
  std::vector<uint32_t> rows;
  rows.reserve(num_rows);
  for (uint64_t row = 0; row < num_rows; ++row) {
    const uint64_t in_head = row % head_width;
    const uint64_t half = in_head % 2;
    rows.push_back(static_cast<uint32_t>(
        row - in_head + half * (head_width / 2) + in_head / 2));
  }
  return rows;
}

Layout LlamaLayout(const HfConfig& config) {
  const auto d = static_cast<uint64_t>(config.width);
  Layout layout;
  layout.prefixes = {"model.", ""};
  layout.layer_prefix = "layers.{}.";
  layout.embedding = "embed_tokens.weight";
  layout.layer = AttentionParts(config);
  const auto ffn =
      config.num_experts == 0 ? FfnParts(config) : ExpertParts(config);
  layout.layer.insert(layout.layer.end(), ffn.begin(), ffn.end());
  layout.outputs = {{"norm.weight", "output_norm.weight", {d}}};
  return layout;
}

}  // namespace thermocline::convert
