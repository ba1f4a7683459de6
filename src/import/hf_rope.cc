#include "import/hf_rope.h"

#include <cmath>
#include <initializer_list>
#include <numbers>
#include <optional>
#include <string>
#include <utility>

#include "base/quote.h"
#include "import/hf_config_fields.h"

namespace thermocline::importer {
namespace {

using gguf::ValueType;

constexpr double kMaxFactor = 1e6;  // what a model file may hold

Result<double> RequireFactor(const JsonFields& fields, const char* key,
                             double low, double high) {
  TC_ASSIGN_OR_RETURN(const double value, fields.RequireFloat(key));
  if (!(value >= low && value <= high)) {
    return fields.Wrong(
        key, fmt::format("is {}; it must be from {} to {}", value, low, high));
  }
  return value;
}

// The constants of YaRN's ramp are fixed in the engine.
Status RequireUsualRamp(const JsonFields& fields) {
  constexpr std::pair<const char*, double> kUsual[] = {{"beta_fast", 32.0},
                                                       {"beta_slow", 1.0}};
  for (const auto& [key, usual] : kUsual) {
    TC_ASSIGN_OR_RETURN(const auto value, fields.Float(key));
    if (value.value_or(usual) != usual) {
      return Fail(ErrorCode::kUnsupported,
                  "{}: key \"{}\" is {}; only {} is in this version",
                  fields.path(), key, *value, usual);
    }
  }
  // Arcee's files have mscale; only together do the two say anything.
  TC_ASSIGN_OR_RETURN(const auto truncate, fields.Bool("truncate"));
  const bool has_scales = fields.Find("mscale") != nullptr &&
                          fields.Find("mscale_all_dim") != nullptr;
  if (!has_scales && truncate.value_or(true)) return {};
  return Fail(ErrorCode::kUnsupported,
              "{}: what key \"{}\" asks for is not in this version",
              fields.path(), has_scales ? "mscale_all_dim" : "truncate");
}

Status ReadYarn(const JsonFields& fields, int64_t context_length,
                HfRope& rope) {
  TC_ASSIGN_OR_RETURN(rope.factor,
                      RequireFactor(fields, "factor", 1.0, kMaxFactor));
  TC_ASSIGN_OR_RETURN(
      const auto original,
      fields.Int("original_max_position_embeddings", 1, kMaxInt32));
  rope.original_context = original.value_or(context_length);
  TC_ASSIGN_OR_RETURN(rope.attention_factor, fields.Float("attention_factor"));
  if (rope.attention_factor &&
      !(*rope.attention_factor >= 1e-2 && *rope.attention_factor <= 1e2)) {
    return fields.Wrong("attention_factor", "must be from 0.01 to 100");
  }
  return RequireUsualRamp(fields);
}

Result<Llama3Scaling> ReadLlama3(const JsonFields& fields) {
  Llama3Scaling scaling;
  TC_ASSIGN_OR_RETURN(scaling.factor,
                      RequireFactor(fields, "factor", 1e-3, kMaxFactor));
  TC_ASSIGN_OR_RETURN(
      scaling.low_freq_factor,
      RequireFactor(fields, "low_freq_factor", 1e-3, kMaxFactor));
  TC_ASSIGN_OR_RETURN(
      scaling.high_freq_factor,
      RequireFactor(fields, "high_freq_factor", 1e-3, kMaxFactor));
  if (!(scaling.low_freq_factor < scaling.high_freq_factor)) {
    return fields.Wrong("low_freq_factor", "must be below high_freq_factor");
  }
  TC_ASSIGN_OR_RETURN(
      const int64_t original,
      fields.RequireInt("original_max_position_embeddings", 1, kMaxInt32));
  scaling.original_context = static_cast<double>(original);
  return scaling;
}

// "rope_type", or "type" in older files; newer ones may have both.
Result<std::optional<std::string>> ReadKind(const JsonFields& fields) {
  TC_ASSIGN_OR_RETURN(auto type, fields.String("rope_type"));
  TC_ASSIGN_OR_RETURN(auto older, fields.String("type"));
  if (type && older && *type != *older) {
    return Fail(
        ErrorCode::kUnsupported,
        "{}: \"rope_type\" is {} and \"type\" {}: both together are not "
        "in this version",
        fields.path(), Quote(*type), Quote(*older));
  }
  return type ? std::move(type) : std::move(older);
}

// What would be lost without a word.
Status RefuseWhatIsNotRead(const JsonFields& fields, bool has_kind) {
  return fields.ForEach([&](const std::string& key,
                            const Json& value) -> Status {
    const bool is_read = has_kind || key == "rope_theta" ||
                         key == "partial_rotary_factor" || value.is_null();
    if (is_read && !value.is_object()) return {};
    return Fail(ErrorCode::kUnsupported, "{}: key {} is {} in this version",
                fields.path(), Quote(key),
                value.is_object() ? "an object, as for layers that differ, "
                                    "which are not"
                                  : "without a \"rope_type\", which is not");
  });
}

Status ReadScaling(const JsonFields& fields, int64_t context_length,
                   HfRope& rope) {
  using Scaling = HfRope::Scaling;
  TC_ASSIGN_OR_RETURN(const auto type, ReadKind(fields));
  TC_RETURN_IF_ERROR(RefuseWhatIsNotRead(fields, type.has_value()));
  const std::string kind = type.value_or("default");
  if (kind == "default") return {};
  if (kind == "linear") {
    rope.scaling = Scaling::kLinear;
    TC_ASSIGN_OR_RETURN(rope.factor,
                        RequireFactor(fields, "factor", 1e-3, kMaxFactor));
    return {};
  }
  if (kind == "yarn") {
    rope.scaling = Scaling::kYarn;
    return ReadYarn(fields, context_length, rope);
  }
  if (kind == "llama3") {
    rope.scaling = Scaling::kLlama3;
    TC_ASSIGN_OR_RETURN(rope.llama3, ReadLlama3(fields));
    return {};
  }
  return Fail(ErrorCode::kUnsupported,
              "{}: rotary scaling {} is not in this version; linear, yarn and "
              "llama3 are",
              fields.path(), Quote(kind));
}

}  // namespace

Result<HfRope> ReadHfRope(const JsonFields& fields, int64_t context_length,
                          double usual_theta,
                          std::optional<double> usual_rotated_share) {
  std::optional<HfRope> found;
  TC_ASSIGN_OR_RETURN(auto share, fields.Float("partial_rotary_factor"));
  TC_ASSIGN_OR_RETURN(auto theta, fields.Float("rope_theta"));
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const Json* object = fields.Find(key);
    if (object == nullptr) continue;
    TC_ASSIGN_OR_RETURN(
        const auto inner,
        JsonFields::Of(*object, fmt::format("{}: {}", fields.path(), key)));
    TC_ASSIGN_OR_RETURN(const auto own_theta, inner.Float("rope_theta"));
    if (!usual_rotated_share) {
      TC_RETURN_IF_ERROR(RefusePartialRotation(inner));
    }
    TC_ASSIGN_OR_RETURN(const auto own_share,
                        inner.Float("partial_rotary_factor"));
    if (!share) share = own_share;
    HfRope rope;
    TC_RETURN_IF_ERROR(ReadScaling(inner, context_length, rope));
    if ((found && *found != rope) ||
        (theta && own_theta && *theta != *own_theta)) {
      return Fail(ErrorCode::kUnsupported,
                  "{}: says something else than what is beside it, and models "
                  "differ in which counts",
                  inner.path());
    }
    found = rope;
    if (!theta) theta = own_theta;
  }
  HfRope rope = found.value_or(HfRope());
  rope.theta = theta.value_or(usual_theta);
  rope.rotated_share = share.value_or(usual_rotated_share.value_or(1.0));
  if (!(rope.rotated_share > 0.0 && rope.rotated_share <= 1.0)) {
    return fields.Wrong("partial_rotary_factor",
                        fmt::format("is {}; it must be above 0 and at most 1",
                                    rope.rotated_share));
  }
  // As the file will hold it: rounding can make 1 of a little more.
  if (!(rope.theta <= 1e30 && static_cast<float>(rope.theta) > 1.0f)) {
    return fields.Wrong(
        "rope_theta",
        fmt::format("is {}; as a 32-bit float it must be greater than 1, and "
                    "at most 1e30",
                    rope.theta));
  }
  return rope;
}

Status WriteHfRope(const HfRope& rope, const std::string& prefix,
                   gguf::Writer& writer) {
  using Scaling = HfRope::Scaling;
  TC_RETURN_IF_ERROR(writer.AddFloat(prefix + "rope.freq_base",
                                     static_cast<float>(rope.theta)));
  if (rope.scaling != Scaling::kLinear && rope.scaling != Scaling::kYarn) {
    return {};
  }
  const bool yarn = rope.scaling == Scaling::kYarn;
  TC_RETURN_IF_ERROR(
      writer.AddString(prefix + "rope.scaling.type", yarn ? "yarn" : "linear"));
  TC_RETURN_IF_ERROR(writer.AddFloat(prefix + "rope.scaling.factor",
                                     static_cast<float>(rope.factor)));
  if (!yarn) return {};
  TC_RETURN_IF_ERROR(
      writer.AddInt(prefix + "rope.scaling.original_context_length",
                    ValueType::kU32, rope.original_context));
  if (!rope.attention_factor) return {};
  // The engine multiplies the usual magnitude; here it is replaced.
  const double usual = 1.0 + 0.1 * std::log(rope.factor);
  return writer.AddFloat(prefix + "rope.scaling.attn_factor",
                         static_cast<float>(*rope.attention_factor / usual));
}

std::vector<float> RopeFactors(const Llama3Scaling& scaling, double theta,
                               size_t rotated_width) {
  const double longest_kept =
      scaling.original_context / scaling.high_freq_factor;
  const double shortest_stretched =
      scaling.original_context / scaling.low_freq_factor;
  std::vector<float> factors;
  for (size_t i = 0; i < rotated_width / 2; ++i) {
    const double exponent =
        2.0 * static_cast<double>(i) / static_cast<double>(rotated_width);
    const double wavelength =
        2.0 * std::numbers::pi * std::pow(theta, exponent);
    double factor = scaling.factor;
    if (wavelength < longest_kept) {
      factor = 1.0;
    } else if (wavelength <= shortest_stretched) {
      const double keep =
          (scaling.original_context / wavelength - scaling.low_freq_factor) /
          (scaling.high_freq_factor - scaling.low_freq_factor);
      factor = 1.0 / ((1.0 - keep) / scaling.factor + keep);
    }
    factors.push_back(static_cast<float>(factor));
  }
  return factors;
}

}  // namespace thermocline::importer
