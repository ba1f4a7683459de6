#include "import/hf_falcon.h"

#include "import/hf_config_fields.h"
#include "model/config.h"

namespace thermocline::importer {
namespace {

constexpr int64_t kUsualContext = 2048;  // what an absent key means

// Whether heads share keys in groups. Falcon 40B's first files have no key that
// says so, but a number of KV heads, which those of 7B lack.
Result<bool> IsGrouped(const JsonFields& fields) {
  TC_ASSIGN_OR_RETURN(const auto grouped,
                      fields.Bool("new_decoder_architecture"));
  return grouped.value_or(fields.Find("n_head_kv") != nullptr);
}

// The models of the paper add their FFN's output to the same stream as the
// attention's, rotate positions and have no biases.
Status ReadFalconBlocks(const JsonFields& fields, bool is_grouped,
                        HfConfig& config) {
  TC_RETURN_IF_ERROR(RequireFlag(fields, "alibi", false));
  TC_RETURN_IF_ERROR(RequireFlag(fields, "bias", false));
  if (is_grouped) {
    TC_ASSIGN_OR_RETURN(const auto num_norms,
                        fields.Int("num_ln_in_parallel_attn", 1, 2));
    config.two_norms = num_norms.value_or(2) == 2;
  }
  return config.two_norms ? Status()
                          : RequireFlag(fields, "parallel_attn", true);
}

Status ReadHeads(const JsonFields& fields, bool is_grouped, HfConfig& config) {
  const char* heads_key = KeyInUse(fields, "num_attention_heads", "n_head");
  const char* kv_heads_key = KeyInUse(fields, "num_kv_heads", "n_head_kv");
  TC_ASSIGN_OR_RETURN(config.num_heads,
                      fields.RequireExtent(heads_key, 1, model::kMaxWidth));
  TC_ASSIGN_OR_RETURN(const auto num_kv_heads,
                      fields.Extent(kv_heads_key, 1, config.num_heads));
  TC_ASSIGN_OR_RETURN(const auto multi_query, fields.Bool("multi_query"));
  // Only the newer layout looks at the number of KV heads.
  if (is_grouped) {
    config.num_kv_heads = num_kv_heads.value_or(config.num_heads);
  } else {
    config.num_kv_heads = multi_query.value_or(true) ? 1 : config.num_heads;
  }
  return CompleteHeads(fields, heads_key, kv_heads_key, config);
}

}  // namespace

Status ReadFalconConfig(const JsonFields& fields, HfConfig& config) {
  constexpr size_t kMaxWidth = model::kMaxWidth / 4;  // of an FFN: 4 times it
  TC_ASSIGN_OR_RETURN(const bool is_grouped, IsGrouped(fields));
  TC_RETURN_IF_ERROR(ReadFalconBlocks(fields, is_grouped, config));
  TC_ASSIGN_OR_RETURN(config.width,
                      fields.RequireExtent("hidden_size", 1, kMaxWidth));
  TC_ASSIGN_OR_RETURN(const auto ffn_width,
                      fields.Extent("ffn_hidden_size", 1, model::kMaxWidth));
  config.ffn_width = ffn_width.value_or(4 * config.width);
  TC_ASSIGN_OR_RETURN(
      config.num_layers,
      fields.RequireExtent(KeyInUse(fields, "num_hidden_layers", "n_layer"), 1,
                           model::kMaxLayers));
  TC_RETURN_IF_ERROR(ReadHeads(fields, is_grouped, config));
  TC_ASSIGN_OR_RETURN(const auto context,
                      fields.Int("max_position_embeddings", 1, kMaxInt32));
  config.context_length = context.value_or(kUsualContext);
  TC_ASSIGN_OR_RETURN(config.vocab_size,
                      fields.Extent("vocab_size", 1, kMaxInt32));
  TC_RETURN_IF_ERROR(ReadActivation(
      fields, KeyInUse(fields, "activation", "hidden_act"), "gelu", config));
  TC_ASSIGN_OR_RETURN(config.rope, ReadHfRope(fields, config.context_length));
  TC_RETURN_IF_ERROR(CompleteRotation(fields, config));
  TC_ASSIGN_OR_RETURN(config.norm_epsilon,
                      ReadEpsilon(fields, "layer_norm_epsilon", 1e-5));
  return {};
}

std::vector<uint32_t> RowsOfFusedHeads(uint64_t num_heads,
                                       uint64_t num_kv_heads,
                                       uint64_t head_width) {
  const uint64_t num_queries = num_heads / num_kv_heads;  // of a KV head
  std::vector<uint32_t> rows;
  rows.reserve((num_heads + 2 * num_kv_heads) * head_width);
  // `head` counts within the group.
  const auto take = [&](uint64_t group, uint64_t head) {
    const uint64_t first = (group * (num_queries + 2) + head) * head_width;
    for (uint64_t i = 0; i < head_width; ++i) {
      rows.push_back(static_cast<uint32_t>(first + i));
    }
  };
  for (uint64_t head = 0; head < num_heads; ++head) {
    take(head / num_queries, head % num_queries);
  }
  for (const uint64_t kind : {num_queries, num_queries + 1}) {
    for (uint64_t group = 0; group < num_kv_heads; ++group) take(group, kind);
  }
  return rows;
}

Layout FalconLayout(const HfConfig& config) {
  Layout layout;
  layout.prefixes = {"transformer.", ""};
  layout.layer_prefix = "h.{}.";
  layout.embedding = "word_embeddings.weight";
  if (config.two_norms) {
    // The second norm of the file is the attention's.
    layout.layer = {{"ln_mlp.weight", "attn_norm.weight"},
                    {"ln_mlp.bias", "attn_norm.bias"},
                    {.hf_name = "ln_attn.weight",
                     .gguf_name = "attn_norm_2.weight",
                     .is_required = true},
                    {"ln_attn.bias", "attn_norm_2.bias"}};
  } else {
    layout.layer = {{"input_layernorm.weight", "attn_norm.weight"},
                    {"input_layernorm.bias", "attn_norm.bias"}};
  }
  const std::vector<Part> matrices = {
      {.hf_name = "self_attention.query_key_value.weight",
       .gguf_name = "attn_qkv.weight",
       .rows = RowsOfFusedHeads(config.num_heads, config.num_kv_heads,
                                config.head_width),
       .is_required = true},
      {"self_attention.dense.weight", "attn_output.weight"},
      {"mlp.dense_h_to_4h.weight", "ffn_up.weight"},
      {"mlp.dense_4h_to_h.weight", "ffn_down.weight"},
  };
  layout.layer.insert(layout.layer.end(), matrices.begin(), matrices.end());
  layout.outputs = {{"ln_f.weight", "output_norm.weight"},
                    {"ln_f.bias", "output_norm.bias"}};
  return layout;
}

}  // namespace thermocline::importer
