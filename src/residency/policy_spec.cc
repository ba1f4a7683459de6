#include "residency/policy_spec.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "base/check.h"
#include "base/quote.h"

namespace thermocline::residency {
namespace {

std::string TextOf(const ParameterInfo& info, double value) {
  if (info.is_switch) return value != 0.0 ? "on" : "off";
  return fmt::format("{}", value);
}

Result<double> ParseValue(const ParameterInfo& info, std::string_view text) {
  if (info.is_switch) {
    if (text == "on") return 1.0;
    if (text == "off") return 0.0;
    return Fail(ErrorCode::kInvalidArgument, "{} is {}: it is on or off",
                info.name, Quote(text));
  }
  double value = 0.0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool is_number = error == std::errc() && stop == end;
  if (is_number && value >= info.least && value <= info.most) return value;
  return Fail(ErrorCode::kInvalidArgument, "{} is {}: it is from {} to {}",
              info.name, Quote(text), info.least, info.most);
}

// The part in front of the next comma, which is cut off with it.
std::string_view TakePart(std::string_view& text) {
  const size_t end = text.find(',');
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return part;
}

Status SetAll(std::string_view text, Parameters& parameters) {
  // A comma at the end promises another one.
  for (bool goes_on = true; goes_on;) {
    goes_on = text.find(',') != std::string_view::npos;
    const std::string_view part = TakePart(text);
    const size_t sign = part.find('=');
    if (sign == std::string_view::npos) {
      return Fail(ErrorCode::kInvalidArgument,
                  "{} is no parameter with its value, NAME=VALUE", Quote(part));
    }
    TC_RETURN_IF_ERROR(
        parameters.Set(part.substr(0, sign), part.substr(sign + 1)));
  }
  return {};
}

}  // namespace

Parameters::Parameters(std::span<const ParameterInfo> infos)
    : infos_(infos), is_set_(infos.size(), false) {
  for (const ParameterInfo& info : infos) values_.push_back(info.value);
}

double Parameters::Get(std::string_view name) const {
  std::optional<double> value;
  for (size_t i = 0; i < infos_.size(); ++i) {
    if (infos_[i].name == name) value = values_[i];
  }
  TC_CHECK(value.has_value());
  return *value;
}

Status Parameters::Set(std::string_view name, std::string_view value) {
  for (size_t i = 0; i < infos_.size(); ++i) {
    if (infos_[i].name != name) continue;
    if (is_set_[i]) {
      return Fail(ErrorCode::kInvalidArgument, "{} is there twice", name);
    }
    is_set_[i] = true;
    TC_ASSIGN_OR_RETURN(values_[i], ParseValue(infos_[i], value));
    return {};
  }
  return Fail(ErrorCode::kInvalidArgument, "no parameter is called {}",
              Quote(name));
}

std::string DescribeParameters(std::span<const ParameterInfo> infos) {
  std::string text;
  for (const ParameterInfo& info : infos) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", info.name,
                        TextOf(info, info.value));
  }
  return text;
}

std::string_view NameInSpec(std::string_view spec) {
  return spec.substr(0, spec.find(':'));
}

Result<Parameters> ParseParameters(std::string_view spec,
                                   std::span<const ParameterInfo> infos) {
  Parameters parameters(infos);
  const std::string_view name = NameInSpec(spec);
  if (name.size() == spec.size()) return parameters;
  const Status status = SetAll(spec.substr(name.size() + 1), parameters);
  if (status) return parameters;
  const std::string all = DescribeParameters(infos);
  return Fail(
      status.error().code, "policy {}: {}; {}", Escape(name),
      status.error().message,
      all.empty() ? "it has no parameters" : "its parameters are " + all);
}

std::vector<std::string> SplitSpecs(std::string_view list) {
  std::vector<std::string> specs;
  for (bool goes_on = true; goes_on;) {
    goes_on = list.find(',') != std::string_view::npos;
    const std::string_view part = TakePart(list);
    const bool goes_with_last = !specs.empty() &&
                                part.find('=') != std::string_view::npos &&
                                part.find(':') == std::string_view::npos;
    if (goes_with_last) {
      specs.back() += fmt::format(",{}", part);
    } else {
      specs.emplace_back(part);
    }
  }
  return specs;
}

}  // namespace thermocline::residency
