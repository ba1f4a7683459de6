#include "import/hf_llama.h"

#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include "base/log.h"
#include "base/quote.h"
#include "import/hf_config_fields.h"
#include "model/config.h"

namespace thermocline::importer {
namespace {

Status ReadSizes(const JsonFields& fields, HfConfig& config) {
  constexpr size_t kMaxWidth = model::kMaxWidth;
  TC_ASSIGN_OR_RETURN(config.width,
                      fields.RequireExtent("hidden_size", 1, kMaxWidth));
  TC_ASSIGN_OR_RETURN(config.ffn_width,
                      fields.RequireExtent("intermediate_size", 1, kMaxWidth));
  TC_ASSIGN_OR_RETURN(
      config.num_layers,
      fields.RequireExtent("num_hidden_layers", 1, model::kMaxLayers));
  TC_ASSIGN_OR_RETURN(
      config.num_heads,
      fields.RequireExtent("num_attention_heads", 1, kMaxWidth));
  TC_ASSIGN_OR_RETURN(
      const auto num_kv_heads,
      fields.Extent("num_key_value_heads", 1, config.num_heads));
  config.num_kv_heads = num_kv_heads.value_or(config.num_heads);
  TC_ASSIGN_OR_RETURN(const auto head_width,
                      fields.Extent("head_dim", 2, kMaxWidth));
  config.head_width = head_width.value_or(0);
  TC_RETURN_IF_ERROR(
      CompleteHeads(fields, head_width ? "head_dim" : "num_attention_heads",
                    "num_key_value_heads", config));
  TC_ASSIGN_OR_RETURN(
      config.context_length,
      fields.RequireInt("max_position_embeddings", 1, kMaxInt32));
  TC_ASSIGN_OR_RETURN(config.vocab_size,
                      fields.Extent("vocab_size", 1, kMaxInt32));
  return {};
}

// Mixtral's: an expert is as wide as an FFN would be.
Status ReadMixtralExperts(const JsonFields& fields, HfConfig& config) {
  TC_ASSIGN_OR_RETURN(
      config.num_experts,
      fields.RequireExtent("num_local_experts", 1, model::kMaxExperts));
  TC_ASSIGN_OR_RETURN(
      config.num_experts_used,
      fields.RequireExtent("num_experts_per_tok", 1, config.num_experts));
  return {};
}

// Qwen3's: experts in every layer, with their weights made to sum to 1.
Status ReadQwenExperts(const JsonFields& fields, HfConfig& config) {
  config.dense_ffn_width = config.ffn_width;
  TC_ASSIGN_OR_RETURN(
      config.ffn_width,
      fields.RequireExtent("moe_intermediate_size", 1, model::kMaxWidth));
  TC_ASSIGN_OR_RETURN(
      config.num_experts,
      fields.RequireExtent("num_experts", 1, model::kMaxExperts));
  TC_ASSIGN_OR_RETURN(
      config.num_experts_used,
      fields.RequireExtent("num_experts_per_tok", 1, config.num_experts));
  TC_ASSIGN_OR_RETURN(const auto is_normed, fields.Bool("norm_topk_prob"));
  if (!is_normed.value_or(false)) {
    return Fail(ErrorCode::kUnsupported,
                "{}: key \"norm_topk_prob\" is not true: experts whose weights "
                "do not sum to 1 are not in this version",
                fields.path());
  }
  TC_ASSIGN_OR_RETURN(const auto step,
                      fields.Int("decoder_sparse_step", 1, model::kMaxLayers));
  const Json* dense_layers = fields.Find("mlp_only_layers");
  if (step.value_or(1) != 1 ||
      (dense_layers != nullptr && !dense_layers->empty())) {
    return Fail(ErrorCode::kUnsupported,
                "{}: keys \"decoder_sparse_step\" and \"mlp_only_layers\" say "
                "that some layers have no experts, which is not in this "
                "version",
                fields.path());
  }
  return {};
}

Status ReadExperts(const JsonFields& fields, HfConfig& config) {
  if (config.num_experts == 0) return {};
  return config.architecture == "llama" ? ReadMixtralExperts(fields, config)
                                        : ReadQwenExperts(fields, config);
}

Result<double> ReadNormEpsilon(const JsonFields& fields,
                               const HfConfig& config) {
  if (config.norm == NormKind::kRms) {
    return ReadEpsilon(fields, "rms_norm_eps", std::nullopt);
  }
  return ReadEpsilon(fields, "norm_eps", 1e-5);
}

// Within the window full attention gives the same: the context ends there.
Status ApplySlidingWindow(const JsonFields& fields, HfConfig& config) {
  TC_ASSIGN_OR_RETURN(const auto is_used, fields.Bool("use_sliding_window"));
  TC_ASSIGN_OR_RETURN(
      const auto window,
      fields.Int("sliding_window", 0, std::numeric_limits<int64_t>::max()));
  if (!is_used.value_or(true) || window.value_or(0) == 0) return {};
  // Qwen has the key even where the switch, off by default, is not written.
  if (!is_used && config.architecture.starts_with("qwen")) return {};
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

// A norm's weight and bias.
void AddNorm(const HfConfig& config, const std::string& hf_name,
             const std::string& gguf_name, std::vector<Part>& parts) {
  parts.push_back({.hf_name = hf_name + ".weight",
                   .gguf_name = gguf_name + ".weight",
                   .adds_one = config.norms_lack_one});
  parts.push_back({hf_name + ".bias", gguf_name + ".bias"});
}

void AddLinear(const std::string& hf_name, const std::string& gguf_name,
               std::vector<Part>& parts,
               const std::vector<uint32_t>& rows = {}) {
  for (const char* kind : {".weight", ".bias"}) {
    parts.push_back({hf_name + kind, gguf_name + kind, rows});
  }
}

void AddAttention(const HfConfig& config, std::vector<Part>& parts) {
  const size_t head = config.head_width;
  std::vector<uint32_t> q_rows;
  std::vector<uint32_t> k_rows;
  if (config.rope_kind == RopeKind::kNorm) {
    q_rows = RowsOfHalves(config.num_heads * head, head);
    k_rows = RowsOfHalves(config.num_kv_heads * head, head);
  }
  AddLinear("self_attn.q_proj", "attn_q", parts, q_rows);
  AddLinear("self_attn.k_proj", "attn_k", parts, k_rows);
  AddLinear("self_attn.v_proj", "attn_v", parts);
  AddLinear("self_attn.o_proj", "attn_output", parts);
  parts.push_back({"self_attn.q_norm.weight", "attn_q_norm.weight"});
  parts.push_back({"self_attn.k_norm.weight", "attn_k_norm.weight"});
}

// Of Mixtral, and of those who came later.
void AddExperts(const HfConfig& config, std::vector<Part>& parts) {
  const bool is_mixtral = config.architecture == "llama";
  const std::string block = is_mixtral ? "block_sparse_moe." : "mlp.";
  parts.push_back({block + "gate.weight", "ffn_gate_inp.weight"});
  for (const auto& [mixtral, later, gguf_name] :
       {std::tuple("w1", "gate_proj", "ffn_gate_exps.weight"),
        std::tuple("w3", "up_proj", "ffn_up_exps.weight"),
        std::tuple("w2", "down_proj", "ffn_down_exps.weight")}) {
    parts.push_back(
        {block + "experts.{}." + (is_mixtral ? mixtral : later) + ".weight",
         gguf_name});
  }
}

}  // namespace

Status ReadLlamaConfig(const JsonFields& fields, HfConfig& config) {
  TC_RETURN_IF_ERROR(ReadSizes(fields, config));
  TC_RETURN_IF_ERROR(ReadExperts(fields, config));
  TC_RETURN_IF_ERROR(ReadActivation(fields, "hidden_act", nullptr, config));
  TC_RETURN_IF_ERROR(ApplyDoubleRelu(fields, config));
  constexpr double kMixtralTheta = 1e6;
  const bool is_mixtral =
      config.num_experts > 0 && config.architecture == "llama";
  TC_ASSIGN_OR_RETURN(config.rope,
                      ReadHfRope(fields, config.context_length,
                                 is_mixtral ? kMixtralTheta : kUsualTheta,
                                 config.usual_rotated_share));
  TC_RETURN_IF_ERROR(CompleteRotation(fields, config));
  // After the rotary embedding, which scales by the whole context.
  TC_RETURN_IF_ERROR(ApplySlidingWindow(fields, config));
  TC_ASSIGN_OR_RETURN(config.norm_epsilon, ReadNormEpsilon(fields, config));
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
  Layout layout;
  layout.prefixes = {"model.", ""};
  layout.layer_prefix = "layers.{}.";
  layout.embedding = "embed_tokens.weight";
  AddNorm(config, "input_layernorm", "attn_norm", layout.layer);
  AddAttention(config, layout.layer);
  AddNorm(config, "post_attention_layernorm", "ffn_norm", layout.layer);
  AddLinear("mlp.gate_proj", "ffn_gate", layout.layer);
  AddLinear("mlp.up_proj", "ffn_up", layout.layer);
  AddLinear("mlp.down_proj", "ffn_down", layout.layer);
  AddExperts(config, layout.layer);
  AddNorm(config, "norm", "output_norm", layout.outputs);
  return layout;
}

}  // namespace thermocline::importer
