#include "import/hf_config.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/quote.h"
#include "import/hf_config_fields.h"
#include "import/hf_falcon.h"
#include "import/hf_llama.h"
#include "import/hf_opt.h"
#include "import/json.h"
#include "model/architectures.h"

namespace thermocline::importer {
namespace {

using gguf::ValueType;

// What model/architectures.h has under the GGUF's name is not repeated.
struct Architecture {
  std::string_view class_name;
  std::string_view model_type;
  const char* gguf_name;
  HfFamily family;
  bool has_experts = false;
  bool norms_lack_one = false;
  std::optional<double> usual_rotated_share;
};
constexpr Architecture kArchitectures[] = {
    {"LlamaForCausalLM", "llama", "llama", HfFamily::kLlama},
    {"MistralForCausalLM", "mistral", "llama", HfFamily::kLlama},
    {.class_name = "MixtralForCausalLM",
     .model_type = "mixtral",
     .gguf_name = "llama",
     .family = HfFamily::kLlama,
     .has_experts = true},
    {"Qwen2ForCausalLM", "qwen2", "qwen2", HfFamily::kLlama},
    {"Qwen3ForCausalLM", "qwen3", "qwen3", HfFamily::kLlama},
    {.class_name = "Qwen3MoeForCausalLM",
     .model_type = "qwen3_moe",
     .gguf_name = "qwen3moe",
     .family = HfFamily::kLlama,
     .has_experts = true},
    {"FalconForCausalLM", "falcon", "falcon", HfFamily::kFalcon},
    {"RWForCausalLM", "RefinedWebModel", "falcon", HfFamily::kFalcon},
    {"RWForCausalLM", "RefinedWeb", "falcon", HfFamily::kFalcon},
    {"OPTForCausalLM", "opt", "opt", HfFamily::kOpt},
    {"BambooForCausalLM", "bamboo", "bamboo", HfFamily::kLlama},
    {"SparseLlamaForCausalLM", "sparsellama", "prosparse-llama",
     HfFamily::kLlama},
    {.class_name = "NemotronForCausalLM",
     .model_type = "nemotron",
     .gguf_name = "nemotron",
     .family = HfFamily::kLlama,
     .norms_lack_one = true,
     .usual_rotated_share = 0.5},
    {"ArceeForCausalLM", "arcee", "arcee", HfFamily::kLlama},
};

const model::Architecture& FormOf(const std::string& gguf_name) {
  const model::Architecture* form = model::FindArchitecture(gguf_name);
  TC_CHECK(form != nullptr);
  return *form;
}

std::string KnownTypes() {
  std::string known;
  for (const Architecture& architecture : kArchitectures) {
    known += known.empty() ? "" : ", ";
    known += architecture.model_type;
  }
  return known;
}

// By the class; folders that name none have the type of their config.
Status ReadArchitecture(const JsonFields& fields, HfConfig& config) {
  const Json* list = fields.Find("architectures");
  TC_ASSIGN_OR_RETURN(const auto type, fields.String("model_type"));
  const bool is_list = list != nullptr && list->is_array() &&
                       list->size() == 1 && list->front().is_string();
  if (list != nullptr && !is_list) {
    return fields.Wrong("architectures", "must be a list of one name");
  }
  if (list == nullptr && !type) {
    return fields.Wrong("architectures", "is missing, and \"model_type\" too");
  }
  const std::string name =
      is_list ? list->front().get_ref<const std::string&>() : *type;
  for (const Architecture& architecture : kArchitectures) {
    const auto& known =
        is_list ? architecture.class_name : architecture.model_type;
    if (known != name) continue;
    config.family = architecture.family;
    config.architecture = architecture.gguf_name;
    config.norms_lack_one = architecture.norms_lack_one;
    config.usual_rotated_share = architecture.usual_rotated_share;
    config.num_experts = architecture.has_experts ? 1 : 0;
    const model::Architecture& form = FormOf(config.architecture);
    config.rope_kind = form.rope;
    config.norm = form.norm;
    config.qkv_bias = form.qkv_bias;
    return {};
  }
  return Fail(ErrorCode::kUnsupported,
              "{}: the architecture {} cannot be converted in this version; "
              "model types that can: {}",
              fields.path(), Quote(name), KnownTypes());
}

// Things that change the result and that nothing here carries out.
Status RefuseWhatIsNotDone(const JsonFields& fields, const HfConfig& config) {
  if (fields.Find("quantization_config") != nullptr) {
    return Fail(ErrorCode::kUnsupported,
                "{}: the weights are quantised already (key "
                "\"quantization_config\"); convert the original model",
                fields.path());
  }
  return config.usual_rotated_share ? Status() : RefusePartialRotation(fields);
}

Status ReadFamily(const JsonFields& fields, HfConfig& config) {
  switch (config.family) {
    case HfFamily::kFalcon:
      return ReadFalconConfig(fields, config);
    case HfFamily::kOpt:
      return ReadOptConfig(fields, config);
    case HfFamily::kLlama:
      break;
  }
  return ReadLlamaConfig(fields, config);
}

// One id, or a list of them; empty: absent.
Result<std::vector<int64_t>> ReadTokenIds(const JsonFields& fields,
                                          const char* key) {
  const Json* value = fields.Find(key);
  std::vector<int64_t> ids;
  if (value == nullptr || !value->is_array()) {
    // -1 is how some files write "none".
    TC_ASSIGN_OR_RETURN(const auto id, fields.Int(key, -1, kMaxInt32));
    if (id.value_or(-1) >= 0) ids.push_back(*id);
    return ids;
  }
  for (const Json& elem : *value) {
    if (elem.is_number_unsigned() &&
        elem.get<uint64_t>() <= uint64_t{kMaxInt32}) {
      ids.push_back(elem.get<int64_t>());
    }
  }
  if (ids.empty() || ids.size() < value->size()) {
    return fields.Wrong(key, "must be a token id or a list of them");
  }
  return ids;
}

// Adds what is not known yet.
Status AddTokenIds(const JsonFields& fields, HfConfig& config) {
  for (const auto& [key, slot] :
       {std::pair("bos_token_id", &HfConfig::bos_id),
        std::pair("pad_token_id", &HfConfig::pad_id)}) {
    TC_ASSIGN_OR_RETURN(const auto ids, ReadTokenIds(fields, key));
    if (!(config.*slot) && !ids.empty()) config.*slot = ids.front();
  }
  TC_ASSIGN_OR_RETURN(const auto ends, ReadTokenIds(fields, "eos_token_id"));
  for (const int64_t id : ends) {
    if (std::ranges::find(config.eos_ids, id) == config.eos_ids.end()) {
      config.eos_ids.push_back(id);
    }
  }
  return {};
}

// The last part of a name like "someone/model-7b".
std::string OwnName(const std::string& name_or_path) {
  std::string_view name = name_or_path;
  while (name.ends_with('/')) name.remove_suffix(1);
  name.remove_prefix(name.rfind('/') + 1);  // npos + 1 is 0
  return name == "." || name == ".." ? "" : std::string(name);
}

Status WriteCounts(const HfConfig& config, const std::string& prefix,
                   gguf::Writer& writer) {
  const auto write = [&](const char* key, size_t count) {
    return writer.AddInt(prefix + key, ValueType::kU32,
                         static_cast<int64_t>(count));
  };
  const std::pair<const char*, size_t> counts[] = {
      {"context_length", static_cast<size_t>(config.context_length)},
      {"embedding_length", config.width},
      {"block_count", config.num_layers},
      {"feed_forward_length",
       config.dense_ffn_width > 0 ? config.dense_ffn_width : config.ffn_width},
      {"attention.head_count", config.num_heads},
      {"attention.head_count_kv", config.num_kv_heads},
      {"attention.key_length", config.head_width},
      {"attention.value_length", config.head_width},
  };
  for (const auto& [key, count] : counts) {
    TC_RETURN_IF_ERROR(write(key, count));
  }
  if (config.rope_kind != RopeKind::kNone) {
    TC_RETURN_IF_ERROR(write("rope.dimension_count", config.rotated_width));
  }
  if (config.vocab_size) {
    TC_RETURN_IF_ERROR(write("vocab_size", *config.vocab_size));
  }
  if (config.num_experts == 0) return {};
  if (config.dense_ffn_width > 0) {
    TC_RETURN_IF_ERROR(write("expert_feed_forward_length", config.ffn_width));
  }
  TC_RETURN_IF_ERROR(write("expert_count", config.num_experts));
  return write("expert_used_count", config.num_experts_used);
}

// What the architecture's name does not say.
Status WriteActivation(const HfConfig& config, gguf::Writer& writer) {
  if (config.activation != FormOf(config.architecture).activation) {
    TC_RETURN_IF_ERROR(writer.AddString(
        "thermocline.ffn.activation", std::string(NameOf(config.activation))));
  }
  if (config.activation != Activation::kFatRelu) return {};
  return writer.AddFloat(
      "thermocline.ffn.threshold",
      static_cast<float>(config.activation_threshold.value_or(0.0)));
}

}  // namespace

Result<HfConfig> ParseHfConfig(std::string_view text, const std::string& path) {
  TC_ASSIGN_OR_RETURN(const Json json, ParseJson(text, path));
  TC_ASSIGN_OR_RETURN(const auto fields, JsonFields::Of(json, path));
  HfConfig config;
  TC_RETURN_IF_ERROR(ReadArchitecture(fields, config));
  TC_RETURN_IF_ERROR(RefuseWhatIsNotDone(fields, config));
  TC_ASSIGN_OR_RETURN(config.tied_head, fields.Bool("tie_word_embeddings"));
  TC_RETURN_IF_ERROR(ReadFamily(fields, config));
  TC_ASSIGN_OR_RETURN(const auto name, fields.String("_name_or_path"));
  config.name = OwnName(name.value_or(""));
  TC_RETURN_IF_ERROR(AddTokenIds(fields, config));
  return config;
}

model::Config ModelConfigOf(const HfConfig& config) {
  const model::Architecture& form = FormOf(config.architecture);
  model::Config described;
  described.width = config.width;
  described.vocab_size = config.vocab_size.value_or(0);
  described.norm = config.norm;
  described.qkv_bias = config.qkv_bias;
  described.other_biases = form.other_biases;
  if (form.learned_positions) described.num_positions = config.context_length;
  described.position_offset = config.position_offset;
  model::LayerSpec layer;
  layer.attention = {.num_heads = config.num_heads,
                     .num_kv_heads = config.num_kv_heads,
                     .key_width = config.head_width,
                     .value_width = config.head_width,
                     .qk_norm = form.qk_norm};
  layer.ffn = {.activation = config.activation,
               .gated = form.gated,
               .width = config.ffn_width,
               .num_experts = config.num_experts,
               .num_experts_used = config.num_experts_used};
  layer.parallel = form.parallel_block;
  described.layers = {layer};
  return described;
}

Status ReadGenerationConfig(std::string_view text, const std::string& path,
                            HfConfig& config) {
  TC_ASSIGN_OR_RETURN(const Json json, ParseJson(text, path));
  TC_ASSIGN_OR_RETURN(const auto fields, JsonFields::Of(json, path));
  return AddTokenIds(fields, config);
}

Status WriteConfig(const HfConfig& config, gguf::Writer& writer) {
  const std::string prefix = config.architecture + ".";
  TC_RETURN_IF_ERROR(WriteCounts(config, prefix, writer));
  const char* epsilon_key = config.norm == NormKind::kRms
                                ? "attention.layer_norm_rms_epsilon"
                                : "attention.layer_norm_epsilon";
  TC_RETURN_IF_ERROR(writer.AddFloat(prefix + epsilon_key,
                                     static_cast<float>(config.norm_epsilon)));
  if (config.rope_kind != RopeKind::kNone) {
    TC_RETURN_IF_ERROR(WriteHfRope(config.rope, prefix, writer));
  }
  return WriteActivation(config, writer);
}

}  // namespace thermocline::importer
