#include "convert/hf_config.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/log.h"
#include "base/quote.h"
#include "convert/json.h"
#include "model/config.h"

namespace thermocline::convert {
namespace {

using gguf::ValueType;

constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();

struct Architecture {
  std::string_view class_name;
  const char* gguf_name;
  bool halves_rotate;
  bool qkv_bias;
};
constexpr Architecture kArchitectures[] = {
    {"LlamaForCausalLM", "llama", false, false},
    {"MistralForCausalLM", "llama", false, false},
    {"Qwen2ForCausalLM", "qwen2", true, true},
};

struct ActivationName {
  std::string_view name;
  Activation activation;
};
constexpr ActivationName kActivations[] = {
    {"silu", Activation::kSilu},
    {"swish", Activation::kSilu},
    {"gelu", Activation::kGelu},
    {"gelu_new", Activation::kGelu},
    {"gelu_pytorch_tanh", Activation::kGelu},
    {"relu", Activation::kRelu},
    {"fatrelu", Activation::kFatRelu},
    {"drelu", Activation::kDRelu},
};

Status ReadArchitecture(const JsonFields& fields, HfConfig& config) {
  const Json* list = fields.Find("architectures");
  if (list == nullptr || !list->is_array() || list->size() != 1 ||
      !list->front().is_string()) {
    return fields.Wrong("architectures", "must be a list of one name");
  }
  const auto& name = list->front().get_ref<const std::string&>();
  std::string known;
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.class_name == name) {
      config.architecture = architecture.gguf_name;
      config.halves_rotate = architecture.halves_rotate;
      config.qkv_bias = architecture.qkv_bias;
      return {};
    }
    known += known.empty() ? "" : ", ";
    known += architecture.class_name;
  }
  return Fail(ErrorCode::kUnsupported,
              "{}: the architecture {} cannot be converted in this version; "
              "those that can: {}",
              fields.path(), Quote(name), known);
}

// Things that change the result and that nothing here carries out.
Status RefuseWhatIsNotDone(const JsonFields& fields) {
  if (fields.Find("quantization_config") != nullptr) {
    return Fail(ErrorCode::kUnsupported,
                "{}: the weights are quantised already (key "
                "\"quantization_config\"); convert the original model",
                fields.path());
  }
  TC_ASSIGN_OR_RETURN(const auto rotated,
                      fields.Float("partial_rotary_factor"));
  if (rotated.value_or(1.0) != 1.0) {
    return Fail(ErrorCode::kUnsupported,
                "{}: key \"partial_rotary_factor\" is {}: heads that rotate "
                "only in part are not in this version",
                fields.path(), *rotated);
  }
  return {};
}

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
  if (config.num_heads % config.num_kv_heads != 0) {
    return fields.Wrong("num_key_value_heads",
                        fmt::format("is {}; it must divide the {} heads",
                                    config.num_kv_heads, config.num_heads));
  }
  TC_ASSIGN_OR_RETURN(const auto head_width,
                      fields.Int("head_dim", 2, kMaxWidth));
  if (!head_width && config.width % config.num_heads != 0) {
    return fields.Wrong("num_attention_heads",
                        fmt::format("is {}; it must divide the width {}",
                                    config.num_heads, config.width));
  }
  config.head_width = head_width.value_or(config.width / config.num_heads);
  if (config.head_width % 2 != 0 ||
      config.head_width * config.num_heads > kMaxWidth) {
    return fields.Wrong("head_dim",
                        fmt::format("is {}: odd, or too much for {} heads",
                                    config.head_width, config.num_heads));
  }
  TC_ASSIGN_OR_RETURN(
      config.context_length,
      fields.RequireInt("max_position_embeddings", 1, kMaxInt32));
  TC_ASSIGN_OR_RETURN(config.vocab_size,
                      fields.Int("vocab_size", 1, kMaxInt32));
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

Status ReadActivation(const JsonFields& fields, HfConfig& config) {
  TC_ASSIGN_OR_RETURN(const auto name, fields.RequireString("hidden_act"));
  const auto* const found =
      std::ranges::find(kActivations, name, &ActivationName::name);
  if (found == std::end(kActivations)) {
    return Fail(ErrorCode::kUnsupported,
                "{}: key \"hidden_act\" is {}; known are silu, gelu, relu, "
                "fatrelu and drelu",
                fields.path(), Quote(name));
  }
  config.activation = found->activation;
  if (name == "gelu") {
    LogWarning(
        "{}: \"gelu\" means the form with erf; the tanh form, which differs by "
        "at most 0.0005, is used",
        fields.path());
  }
  if (config.activation != Activation::kFatRelu) return {};
  for (const char* key :
       {"hidden_act_param", "hidden_act_threshold", "fatrelu_threshold"}) {
    TC_ASSIGN_OR_RETURN(const auto threshold, fields.Float(key));
    if (!threshold) continue;
    if (!(*threshold >= 0.0 && *threshold <= 1e30)) {
      return fields.Wrong(
          key, fmt::format("is {}; it must be a threshold >= 0", *threshold));
    }
    config.activation_threshold = threshold;
    return {};
  }
  LogWarning("{}: no threshold is given for fatrelu; 0 makes it relu",
             fields.path());
  return {};
}

// One id, or the first of a list.
Result<std::optional<int64_t>> ReadTokenId(const JsonFields& fields,
                                           const char* key) {
  const Json* value = fields.Find(key);
  if (value == nullptr || !value->is_array()) {
    return fields.Int(key, 0, kMaxInt32);
  }
  if (value->empty() || !value->front().is_number_unsigned() ||
      value->front().get<uint64_t>() > uint64_t{kMaxInt32}) {
    return fields.Wrong(key, "must be a token id or a list of them");
  }
  return value->front().get<int64_t>();
}

// The last part of a name like "someone/model-7b".
std::string OwnName(const std::string& name_or_path) {
  std::string_view name = name_or_path;
  while (name.ends_with('/')) name.remove_suffix(1);
  name.remove_prefix(name.rfind('/') + 1);  // npos + 1 is 0
  return name == "." || name == ".." ? "" : std::string(name);
}

}  // namespace

Result<HfConfig> ParseHfConfig(std::string_view text, const std::string& path) {
  TC_ASSIGN_OR_RETURN(const Json json, ParseJson(text, path));
  TC_ASSIGN_OR_RETURN(const auto fields, JsonFields::Of(json, path));
  HfConfig config;
  TC_RETURN_IF_ERROR(ReadArchitecture(fields, config));
  TC_RETURN_IF_ERROR(RefuseWhatIsNotDone(fields));
  TC_RETURN_IF_ERROR(ReadSizes(fields, config));
  TC_RETURN_IF_ERROR(ApplySlidingWindow(fields, config));
  TC_RETURN_IF_ERROR(ReadActivation(fields, config));
  TC_ASSIGN_OR_RETURN(config.rope, ReadHfRope(fields, config.context_length));
  TC_ASSIGN_OR_RETURN(config.norm_epsilon, fields.RequireFloat("rms_norm_eps"));
  if (!(config.norm_epsilon >= 0.0 && config.norm_epsilon <= 1.0)) {
    return fields.Wrong("rms_norm_eps", fmt::format("is {}; it must be from 0 "
                                                    "to 1",
                                                    config.norm_epsilon));
  }
  TC_ASSIGN_OR_RETURN(const auto tied, fields.Bool("tie_word_embeddings"));
  config.tied_head = tied.value_or(false);
  TC_ASSIGN_OR_RETURN(const auto name, fields.String("_name_or_path"));
  config.name = OwnName(name.value_or(""));
  TC_ASSIGN_OR_RETURN(config.bos_id, ReadTokenId(fields, "bos_token_id"));
  TC_ASSIGN_OR_RETURN(config.eos_id, ReadTokenId(fields, "eos_token_id"));
  return config;
}

Status ReadGenerationConfig(std::string_view text, const std::string& path,
                            HfConfig& config) {
  TC_ASSIGN_OR_RETURN(const Json json, ParseJson(text, path));
  TC_ASSIGN_OR_RETURN(const auto fields, JsonFields::Of(json, path));
  for (const auto& [key, id] : {std::pair("bos_token_id", &HfConfig::bos_id),
                                std::pair("eos_token_id", &HfConfig::eos_id)}) {
    if (config.*id) continue;
    TC_ASSIGN_OR_RETURN(config.*id, ReadTokenId(fields, key));
  }
  return {};
}

Status WriteConfig(const HfConfig& config, gguf::Writer& writer) {
  const std::string prefix = config.architecture + ".";
  const std::pair<const char*, int64_t> counts[] = {
      {"context_length", config.context_length},
      {"embedding_length", config.width},
      {"block_count", config.num_layers},
      {"feed_forward_length", config.ffn_width},
      {"attention.head_count", config.num_heads},
      {"attention.head_count_kv", config.num_kv_heads},
      {"attention.key_length", config.head_width},
      {"attention.value_length", config.head_width},
      {"rope.dimension_count", config.head_width},
  };
  for (const auto& [key, count] : counts) {
    TC_RETURN_IF_ERROR(writer.AddInt(prefix + key, ValueType::kU32, count));
  }
  if (config.vocab_size) {
    TC_RETURN_IF_ERROR(writer.AddInt(prefix + "vocab_size", ValueType::kU32,
                                     *config.vocab_size));
  }
  TC_RETURN_IF_ERROR(
      writer.AddFloat(prefix + "attention.layer_norm_rms_epsilon",
                      static_cast<float>(config.norm_epsilon)));
  TC_RETURN_IF_ERROR(WriteHfRope(config.rope, prefix, writer));
  TC_RETURN_IF_ERROR(writer.AddString("thermocline.ffn.activation",
                                      std::string(NameOf(config.activation))));
  if (!config.activation_threshold) return {};
  return writer.AddFloat("thermocline.ffn.threshold",
                         static_cast<float>(*config.activation_threshold));
}

}  // namespace thermocline::convert
