#include "planner/plan_text.h"

#include <charconv>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "base/quote.h"

namespace thermocline::planner {
namespace {

using Json = nlohmann::json;

constexpr int kMaxPlanDepth = 8;  // a plan has 4

// Never leaves ParsePlanJson.
class BadPlanText : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Stops the parser at nesting that no plan has, and at a key whose second value
// would hide the first.
class PlanGuard {
 public:
  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    using Event = Json::parse_event_t;
    if (depth > kMaxPlanDepth) throw BadPlanText("nested too deep");
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::object_end) keys_.pop_back();
    if (event == Event::key) {
      const auto& key = parsed.get_ref<const Json::string_t&>();
      if (!keys_.back().insert(key).second) {
        throw BadPlanText(fmt::format("key {} twice", Quote(key)));
      }
    }
    return true;
  }

 private:
  std::vector<std::set<std::string>> keys_;  // of the open objects
};

// Digits without a sign or leading zeros, from the front of `text`.
std::optional<uint32_t> TakeNumber(std::string_view& text) {
  uint32_t number = 0;
  const char* begin = text.data();
  const char* end = begin + text.size();
  const auto [stop, error] = std::from_chars(begin, end, number);
  if (error != std::errc()) return std::nullopt;
  if (*begin == '0' && stop - begin > 1) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(stop - begin));
  return number;
}

bool TakeChar(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::string FormatRuns(std::span<const uint32_t> items) {
  std::string text;
  for (size_t i = 0; i < items.size();) {
    size_t end = i + 1;
    while (end < items.size() && items[end] == items[end - 1] + 1) ++end;
    if (i > 0) text += ',';
    text += fmt::format("{}", items[i]);
    if (end - i > 1) text += fmt::format("-{}", items[end - 1]);
    i = end;
  }
  return text;
}

std::optional<std::vector<uint32_t>> ParseRuns(std::string_view text,
                                               uint32_t count) {
  std::vector<uint32_t> items;
  if (text.empty()) return items;
  do {
    const std::optional<uint32_t> first = TakeNumber(text);
    if (!first) return std::nullopt;
    std::optional<uint32_t> last = first;
    if (TakeChar(text, '-')) {
      last = TakeNumber(text);
      if (!last || *last <= *first) return std::nullopt;
    }
    // Neighbours of two runs would be one.
    if (!items.empty() && *first <= items.back() + 1) return std::nullopt;
    if (*last >= count) return std::nullopt;
    for (uint32_t i = *first; i <= *last; ++i) items.push_back(i);
  } while (TakeChar(text, ','));
  if (!text.empty()) return std::nullopt;
  return items;
}

Result<Json> ParsePlanJson(std::string_view text, const std::string& path) {
  PlanGuard guard;
  Json json;
  try {
    json = Json::parse(text.begin(), text.end(), std::ref(guard));
  } catch (const BadPlanText& bad) {
    return Fail(ErrorCode::kCorrupt, "{}: {}", path, bad.what());
  } catch (const Json::parse_error& error) {
    return Fail(ErrorCode::kCorrupt,
                "{}: not valid JSON at byte {}; a plan is one JSON object, "
                "perhaps it was cut short",
                path, error.byte);
  } catch (const std::exception&) {
    return Fail(ErrorCode::kCorrupt, "{}: not valid JSON: a number too large",
                path);
  }
  if (json.is_object()) return json;
  return Fail(ErrorCode::kCorrupt, "{}: not a JSON object, which a plan is",
              path);
}

PlanFields::PlanFields(const Json& json, const std::string& path,
                       std::string prefix)
    : json_(&json), path_(&path), prefix_(std::move(prefix)) {}

Result<const Json*> PlanFields::Take(const std::string& key,
                                     std::string_view must_be) {
  known_.insert(key);
  const auto found = json_->find(key);
  if (found != json_->end()) return &*found;
  return Fail(ErrorCode::kInvalidArgument,
              "{}: key \"{}{}\" is missing; it must be {}", *path_, prefix_,
              key, must_be);
}

tl::unexpected<Error> PlanFields::Wrong(const std::string& key,
                                        std::string_view must_be) const {
  return Fail(ErrorCode::kInvalidArgument, "{}: key \"{}{}\" must be {}",
              *path_, prefix_, key, must_be);
}

Result<std::string> PlanFields::Text(const std::string& key) {
  TC_ASSIGN_OR_RETURN(const Json* value, Take(key, "a text"));
  if (!value->is_string()) return Wrong(key, "a text");
  return value->get<std::string>();
}

Result<uint64_t> PlanFields::Whole(const std::string& key, uint64_t max) {
  const std::string must_be =
      max == ~uint64_t{0} ? "a whole number"
                          : fmt::format("a whole number, at most {}", max);
  TC_ASSIGN_OR_RETURN(const Json* value, Take(key, must_be));
  if (!value->is_number_unsigned() || value->get<uint64_t>() > max) {
    return Wrong(key, must_be);
  }
  return value->get<uint64_t>();
}

Result<bool> PlanFields::Bool(const std::string& key) {
  TC_ASSIGN_OR_RETURN(const Json* value, Take(key, "true or false"));
  if (!value->is_boolean()) return Wrong(key, "true or false");
  return value->get<bool>();
}

Result<std::optional<double>> PlanFields::Seconds(const std::string& key) {
  constexpr std::string_view kMustBe = "seconds, 0 or more, or null";
  TC_ASSIGN_OR_RETURN(const Json* value, Take(key, kMustBe));
  if (value->is_null()) return std::optional<double>();
  if (!value->is_number()) return Wrong(key, kMustBe);
  const double seconds = value->get<double>();
  if (!std::isfinite(seconds) || std::signbit(seconds)) {
    return Wrong(key, kMustBe);
  }
  return std::optional<double>(seconds);
}

Result<uint64_t> PlanFields::Hash(const std::string& key) {
  constexpr std::string_view kMustBe = "16 hexadecimal digits";
  TC_ASSIGN_OR_RETURN(const std::string text, Text(key));
  uint64_t hash = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, hash, 16);
  if (text.size() != 16 || error != std::errc() || stop != end) {
    return Wrong(key, kMustBe);
  }
  return hash;
}

Result<const Json*> PlanFields::Array(const std::string& key) {
  TC_ASSIGN_OR_RETURN(const Json* value, Take(key, "a list"));
  if (!value->is_array()) return Wrong(key, "a list");
  return value;
}

Result<PlanFields> PlanFields::Object(const std::string& key) {
  TC_ASSIGN_OR_RETURN(const Json* value, Take(key, "an object"));
  if (!value->is_object()) return Wrong(key, "an object");
  return PlanFields(*value, *path_, key + ".");
}

Result<double> PlanFields::Number(const std::string& key, double max) {
  const std::string must_be = fmt::format("a number from 0 to {:g}", max);
  TC_ASSIGN_OR_RETURN(const Json* value, Take(key, must_be));
  if (!value->is_number()) return Wrong(key, must_be);
  const double number = value->get<double>();
  if (!std::isfinite(number) || std::signbit(number) || number > max) {
    return Wrong(key, must_be);
  }
  return number;
}

Result<double> PlanFields::Rate(const std::string& key, double max) {
  TC_ASSIGN_OR_RETURN(const double rate, Number(key, max));
  if (rate > 0.0) return rate;
  return Wrong(key, fmt::format("a number above 0, at most {:g}", max));
}

Status PlanFields::CheckNoOthers(std::string_view format) const {
  for (const auto& [key, value] : json_->items()) {
    if (known_.contains(key)) continue;
    return Fail(ErrorCode::kInvalidArgument,
                "{}: key \"{}{}\" is unknown; the keys are those of "
                "docs/formats/{}",
                *path_, prefix_, Escape(key), format);
  }
  return {};
}

std::string JsonText(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string FormatFingerprint(const model::ModelFingerprint& model) {
  return fmt::format(
      "  \"model\": {{\"architecture\": {}, \"name\": {}, \"layers\": {}, "
      "\"width\": {}, \"neurons\": {}, \"experts\": {}, \"hash\": "
      "\"{:016x}\"}},\n",
      JsonText(model.architecture), JsonText(model.name), model.num_layers,
      model.width, model.ffn_width, model.num_experts, model.hash);
}

Result<model::ModelFingerprint> ReadFingerprint(PlanFields& top) {
  TC_ASSIGN_OR_RETURN(PlanFields fields, top.Object("model"));
  model::ModelFingerprint model;
  TC_ASSIGN_OR_RETURN(model.architecture, fields.Text("architecture"));
  TC_ASSIGN_OR_RETURN(model.name, fields.Text("name"));
  TC_ASSIGN_OR_RETURN(model.num_layers, fields.Whole("layers", kMaxLayers));
  TC_ASSIGN_OR_RETURN(model.width, fields.Whole("width", kMaxItems));
  TC_ASSIGN_OR_RETURN(model.ffn_width, fields.Whole("neurons", kMaxItems));
  TC_ASSIGN_OR_RETURN(model.num_experts, fields.Whole("experts", kMaxItems));
  TC_ASSIGN_OR_RETURN(model.hash, fields.Hash("hash"));
  TC_RETURN_IF_ERROR(fields.CheckNoOthers());
  return model;
}

Status ReadFormat(PlanFields& top, std::string_view format, uint64_t version,
                  const std::string& path) {
  TC_ASSIGN_OR_RETURN(const std::string found, top.Text("format"));
  if (found != format) {
    return top.Wrong("format", fmt::format("\"{}\"", format));
  }
  TC_ASSIGN_OR_RETURN(const uint64_t number,
                      top.Whole("version", ~uint64_t{0}));
  if (number == 0) return top.Wrong("version", "1 or more");
  if (number <= version) return {};
  return Fail(ErrorCode::kUnsupported,
              "{}: key \"version\" is {}; this program reads version {}, a "
              "newer one may read it",
              path, number, version);
}

}  // namespace thermocline::planner
