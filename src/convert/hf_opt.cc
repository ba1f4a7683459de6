#include "convert/hf_opt.h"

#include <cstdint>
#include <numeric>
#include <vector>

#include "convert/hf_config_fields.h"
#include "model/config.h"

namespace thermocline::convert {
namespace {

// Position 0 reads this row of the table: a trace of the padding token's id.
constexpr uint64_t kPositionOffset = 2;

// OPT-350m has both of the first two; Galactica lacks biases.
Status RefuseOtherOptBlocks(const JsonFields& fields, const HfConfig& config) {
  TC_RETURN_IF_ERROR(RequireFlag(fields, "do_layer_norm_before", true));
  TC_ASSIGN_OR_RETURN(const auto projected,
                      fields.Int("word_embed_proj_dim", 1, model::kMaxWidth));
  if (projected.value_or(config.width) != config.width) {
    return Fail(ErrorCode::kUnsupported,
                "{}: key \"word_embed_proj_dim\" is {}, but \"hidden_size\" is "
                "{}: projected embeddings are not in this version",
                fields.path(), *projected, config.width);
  }
  TC_RETURN_IF_ERROR(RequireFlag(fields, "_remove_final_layer_norm", false));
  TC_RETURN_IF_ERROR(RequireFlag(fields, "remove_final_layer_norm", false));
  TC_RETURN_IF_ERROR(
      RequireFlag(fields, "layer_norm_elementwise_affine", true));
  return RequireFlag(fields, "enable_bias", true);
}

}  // namespace

Status ReadOptConfig(const JsonFields& fields, HfConfig& config) {
  config.norm = NormKind::kLayer;
  constexpr int64_t kMaxWidth = model::kMaxWidth;
  TC_ASSIGN_OR_RETURN(config.width,
                      fields.RequireInt("hidden_size", 1, kMaxWidth));
  TC_RETURN_IF_ERROR(RefuseOtherOptBlocks(fields, config));
  TC_ASSIGN_OR_RETURN(config.ffn_width,
                      fields.RequireInt("ffn_dim", 1, kMaxWidth));
  TC_ASSIGN_OR_RETURN(
      config.num_layers,
      fields.RequireInt("num_hidden_layers", 1, model::kMaxLayers));
  TC_ASSIGN_OR_RETURN(config.num_heads,
                      fields.RequireInt("num_attention_heads", 1, kMaxWidth));
  config.num_kv_heads = config.num_heads;
  TC_RETURN_IF_ERROR(CompleteHeads(fields, "num_attention_heads",
                                   "num_attention_heads", config));
  TC_ASSIGN_OR_RETURN(
      config.context_length,
      fields.RequireInt("max_position_embeddings", 1, model::kMaxWidth));
  TC_ASSIGN_OR_RETURN(config.vocab_size,
                      fields.Int("vocab_size", 1, kMaxInt32));
  TC_RETURN_IF_ERROR(
      ReadActivation(fields, "activation_function", "relu", config));
  config.norm_epsilon = 1e-5;  // no key changes it
  return {};
}

Layout OptLayout(const HfConfig& config) {
  const auto d = static_cast<uint64_t>(config.width);
  const auto f = static_cast<uint64_t>(config.ffn_width);
  const auto num_positions = static_cast<uint64_t>(config.context_length);
  Layout layout;
  layout.prefixes = {"model.decoder.", "decoder.", ""};
  layout.layer_prefix = "layers.{}.";
  layout.embedding = "embed_tokens.weight";
  std::vector<uint32_t> rows(num_positions);
  std::iota(rows.begin(), rows.end(), uint32_t{kPositionOffset});
  layout.inputs = {{"embed_positions.weight",
                    "position_embd.weight",
                    {num_positions + kPositionOffset, d},
                    Presence::kRequired,
                    std::move(rows),
                    0,
                    Storage::kF32}};
  struct Linear {
    const char* hf_name;
    const char* gguf_name;
    std::vector<uint64_t> shape;
  };
  const Linear linears[] = {
      {"self_attn_layer_norm", "attn_norm", {d}},
      {"self_attn.q_proj", "attn_q", {d, d}},
      {"self_attn.k_proj", "attn_k", {d, d}},
      {"self_attn.v_proj", "attn_v", {d, d}},
      {"self_attn.out_proj", "attn_output", {d, d}},
      {"final_layer_norm", "ffn_norm", {d}},
      {"fc1", "ffn_up", {f, d}},
      {"fc2", "ffn_down", {d, f}},
  };
  for (const auto& [hf_name, gguf_name, shape] : linears) {
    const std::string from = hf_name;
    const std::string to = gguf_name;
    layout.layer.push_back({from + ".weight", to + ".weight", shape});
    layout.layer.push_back({from + ".bias", to + ".bias", {shape.front()}});
  }
  layout.outputs = {
      {"final_layer_norm.weight", "output_norm.weight", {d}},
      {"final_layer_norm.bias", "output_norm.bias", {d}},
  };
  return layout;
}

}  // namespace thermocline::convert
