#include "import/hf_opt.h"

#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "import/hf_config_fields.h"
#include "model/config.h"

namespace thermocline::importer {
namespace {

// Position 0 reads this row of the table: a trace of the padding token's id.
constexpr int64_t kPositionOffset = 2;

// OPT-350m has both of the first two; Galactica lacks biases.
Status RefuseOtherOptBlocks(const JsonFields& fields, const HfConfig& config) {
  TC_RETURN_IF_ERROR(RequireFlag(fields, "do_layer_norm_before", true));
  TC_ASSIGN_OR_RETURN(const auto projected, fields.Extent("word_embed_proj_dim",
                                                          1, model::kMaxWidth));
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
  config.position_offset = kPositionOffset;
  constexpr size_t kMaxWidth = model::kMaxWidth;
  TC_ASSIGN_OR_RETURN(config.width,
                      fields.RequireExtent("hidden_size", 1, kMaxWidth));
  TC_RETURN_IF_ERROR(RefuseOtherOptBlocks(fields, config));
  TC_ASSIGN_OR_RETURN(config.ffn_width,
                      fields.RequireExtent("ffn_dim", 1, kMaxWidth));
  TC_ASSIGN_OR_RETURN(
      config.num_layers,
      fields.RequireExtent("num_hidden_layers", 1, model::kMaxLayers));
  TC_ASSIGN_OR_RETURN(
      config.num_heads,
      fields.RequireExtent("num_attention_heads", 1, kMaxWidth));
  config.num_kv_heads = config.num_heads;
  TC_RETURN_IF_ERROR(CompleteHeads(fields, "num_attention_heads",
                                   "num_attention_heads", config));
  TC_ASSIGN_OR_RETURN(
      config.context_length,
      fields.RequireInt("max_position_embeddings", 1, model::kMaxWidth));
  TC_ASSIGN_OR_RETURN(config.vocab_size,
                      fields.Extent("vocab_size", 1, kMaxInt32));
  TC_RETURN_IF_ERROR(
      ReadActivation(fields, "activation_function", "relu", config));
  config.norm_epsilon = 1e-5;  // no key changes it
  return {};
}

Layout OptLayout(const HfConfig& config) {
  Layout layout;
  layout.prefixes = {"model.decoder.", "decoder.", ""};
  layout.layer_prefix = "layers.{}.";
  layout.embedding = "embed_tokens.weight";
  std::vector<uint32_t> rows(static_cast<size_t>(config.context_length));
  std::iota(rows.begin(), rows.end(),
            static_cast<uint32_t>(config.position_offset));
  layout.inputs = {
      {"embed_positions.weight", "position_embd.weight", std::move(rows)}};
  constexpr std::pair<const char*, const char*> kLinears[] = {
      {"self_attn_layer_norm", "attn_norm"},
      {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},
      {"self_attn.out_proj", "attn_output"},
      {"final_layer_norm", "ffn_norm"},
      {"fc1", "ffn_up"},
      {"fc2", "ffn_down"},
  };
  for (const auto& [hf_name, gguf_name] : kLinears) {
    for (const char* kind : {".weight", ".bias"}) {
      layout.layer.push_back(
          {std::string(hf_name) + kind, std::string(gguf_name) + kind});
    }
  }
  layout.outputs = {{"final_layer_norm.weight", "output_norm.weight"},
                    {"final_layer_norm.bias", "output_norm.bias"}};
  return layout;
}

}  // namespace thermocline::importer
