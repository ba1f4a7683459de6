#include "import/hf_config_fields.h"

#include <algorithm>
#include <string_view>

#include "base/log.h"
#include "base/quote.h"

namespace thermocline::importer {
namespace {

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
    {"relu2", Activation::kRelu2},
    {"squared_relu", Activation::kRelu2},
};

Status ReadThreshold(const JsonFields& fields, HfConfig& config) {
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

}  // namespace

const char* KeyInUse(const JsonFields& fields, const char* name,
                     const char* older_name) {
  const bool is_older =
      fields.Find(name) == nullptr && fields.Find(older_name) != nullptr;
  return is_older ? older_name : name;
}

Status RequireFlag(const JsonFields& fields, const char* key, bool value) {
  TC_ASSIGN_OR_RETURN(const auto found, fields.Bool(key));
  if (found.value_or(value) == value) return {};
  return Fail(ErrorCode::kUnsupported,
              "{}: key \"{}\" is {}: such models are not in this version",
              fields.path(), key, *found);
}

Status RefusePartialRotation(const JsonFields& fields) {
  TC_ASSIGN_OR_RETURN(const auto rotated,
                      fields.Float("partial_rotary_factor"));
  if (rotated.value_or(1.0) == 1.0) return {};
  return Fail(ErrorCode::kUnsupported,
              "{}: key \"partial_rotary_factor\" is {}: heads that rotate "
              "only in part are not in this version",
              fields.path(), *rotated);
}

Status CompleteRotation(const JsonFields& fields, HfConfig& config) {
  const auto rotated = static_cast<int64_t>(
      config.rope.rotated_share * static_cast<double>(config.head_width));
  if (rotated < 2 || rotated % 2 != 0) {
    return fields.Wrong(
        "partial_rotary_factor",
        fmt::format("is {}: of heads of width {} it leaves {} to rotate, which "
                    "must be even and more than 0",
                    config.rope.rotated_share, config.head_width, rotated));
  }
  config.rotated_width = static_cast<size_t>(rotated);
  return {};
}

Status CompleteHeads(const JsonFields& fields, const char* heads_key,
                     const char* kv_heads_key, HfConfig& config) {
  if (config.num_heads % config.num_kv_heads != 0) {
    return fields.Wrong(kv_heads_key,
                        fmt::format("is {}; it must divide the {} heads",
                                    config.num_kv_heads, config.num_heads));
  }
  if (config.head_width == 0) {
    if (config.width % config.num_heads != 0) {
      return fields.Wrong(heads_key,
                          fmt::format("is {}; it must divide the width {}",
                                      config.num_heads, config.width));
    }
    config.head_width = config.width / config.num_heads;
  }
  const bool rotates = config.rope_kind != RopeKind::kNone;
  if ((rotates && config.head_width % 2 != 0) ||
      config.head_width * config.num_heads > model::kMaxWidth) {
    return fields.Wrong(
        heads_key,
        fmt::format("is {}: heads of width {} are odd, or too much together",
                    config.num_heads, config.head_width));
  }
  return {};
}

Status ReadActivation(const JsonFields& fields, const char* key,
                      const char* fallback, HfConfig& config) {
  TC_ASSIGN_OR_RETURN(const auto given, fields.String(key));
  if (!given && fallback == nullptr) return fields.Wrong(key, "is missing");
  const std::string name = given ? *given : fallback;
  const auto* const found =
      std::ranges::find(kActivations, name, &ActivationName::name);
  if (found == std::end(kActivations)) {
    return Fail(ErrorCode::kUnsupported, "{}: key \"{}\" is {}; known are {}",
                fields.path(), key, Quote(name), ListActivations());
  }
  config.activation = found->activation;
  if (name == "gelu") {
    LogWarning(
        "{}: \"gelu\" means the form with erf; the tanh form, which differs by "
        "at most 0.0005, is used",
        fields.path());
  }
  if (config.activation != Activation::kFatRelu) return {};
  return ReadThreshold(fields, config);
}

Result<double> ReadEpsilon(const JsonFields& fields, const char* key,
                           std::optional<double> fallback) {
  TC_ASSIGN_OR_RETURN(const auto given, fields.Float(key));
  if (!given && !fallback) return fields.Wrong(key, "is missing");
  const double epsilon = given ? *given : *fallback;
  if (!(epsilon >= 0.0 && epsilon <= 1.0)) {
    return fields.Wrong(key,
                        fmt::format("is {}; it must be from 0 to 1", epsilon));
  }
  return epsilon;
}

}  // namespace thermocline::importer
