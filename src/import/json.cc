#include "import/json.h"

#include <cmath>
#include <exception>
#include <functional>
#include <stdexcept>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/keyed_hash.h"
#include "base/quote.h"

namespace thermocline::importer {
namespace {

// Never leaves ParseJson.
class Complaint : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Watches the parser go through the text, and stops it by an exception at the
// first thing that is wrong: dropping values would let it read a hostile text
// to the end.
class Guard {
 public:
  bool operator()(int, Json::parse_event_t event, Json& parsed) {
    using Event = Json::parse_event_t;
    switch (event) {
      case Event::object_start:
      case Event::array_start:
        keys_.emplace_back();
        if (keys_.size() > size_t{kMaxJsonDepth}) {
          throw Complaint(
              fmt::format("nested more than {} deep", kMaxJsonDepth));
        }
        break;
      case Event::object_end:
      case Event::array_end:
        if (!keys_.empty()) keys_.pop_back();
        break;
      case Event::key:
        Note(parsed);
        break;
      case Event::value:
        break;
    }
    return true;
  }

 private:
  void Note(const Json& parsed) {
    const auto* key = parsed.get_ptr<const Json::string_t*>();
    if (key == nullptr || keys_.empty()) return;
    if (!keys_.back().insert(*key).second) {
      throw Complaint(fmt::format("key {} twice in one object", Quote(*key)));
    }
  }

  using Keys = std::unordered_set<std::string, KeyedHash, std::equal_to<>>;
  std::vector<Keys> keys_;  // of the open objects
};

// The library's message without its own name and number in front.
std::string_view WithoutTag(std::string_view message) {
  const size_t end = message.find("] ");
  return end == std::string_view::npos ? message : message.substr(end + 2);
}

// The kind of a value; of a string also its text, as numbers that are not
// finite are given.
std::string Describe(const Json& value) {
  const auto* text = value.get_ptr<const Json::string_t*>();
  return text == nullptr ? value.type_name() : "string " + Quote(*text);
}

// What Python writes for numbers that JSON has no word for, in front of `text`.
std::string_view WordInFront(std::string_view text) {
  for (const std::string_view word : {"NaN", "Infinity", "-Infinity"}) {
    if (text.starts_with(word)) return word;
  }
  return {};
}

// `text` with quotes around such words, so that they are strings; nullopt if it
// has none.
std::optional<std::string> QuoteNonFinite(std::string_view text) {
  std::string quoted;
  size_t done = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') in_string = !in_string;
    if (in_string && text[i] == '\\') ++i;
    if (in_string || (text[i] != 'N' && text[i] != 'I' && text[i] != '-')) {
      continue;
    }
    const std::string_view word = WordInFront(text.substr(i));
    if (word.empty()) continue;
    quoted.append(text.substr(done, i - done)).append(1, '"');
    quoted.append(word).append(1, '"');
    done = i + word.size();
    i = done - 1;
  }
  if (done == 0) return std::nullopt;
  return quoted.append(text.substr(done));
}

Result<Json> ParseStrictly(std::string_view text, const std::string& path) {
  Guard guard;
  try {
    return Json::parse(text.begin(), text.end(), std::ref(guard));
  } catch (const Complaint& complaint) {
    return Fail(ErrorCode::kCorrupt, "{}: not valid JSON: {}", path,
                complaint.what());
  } catch (const std::exception& error) {
    return Fail(ErrorCode::kCorrupt, "{}: not valid JSON: {}", path,
                Quote(WithoutTag(error.what())));
  }
}

}  // namespace

Result<Json> ParseJson(std::string_view text, const std::string& path) {
  Result<Json> json = ParseStrictly(text, path);
  if (json.has_value()) return json;
  const std::optional<std::string> quoted = QuoteNonFinite(text);
  if (!quoted) return json;
  Result<Json> again = ParseStrictly(*quoted, path);
  return again.has_value() ? std::move(again) : std::move(json);
}

Result<JsonFields> JsonFields::Of(const Json& json, std::string path) {
  if (!json.is_object()) {
    return Fail(ErrorCode::kCorrupt, "{}: a JSON object is needed, this is {}",
                path, json.type_name());
  }
  return JsonFields(json, std::move(path));
}

const Json* JsonFields::Find(const char* key) const {
  const auto found = json_->find(key);
  return found == json_->end() || found->is_null() ? nullptr : &*found;
}

tl::unexpected<Error> JsonFields::Wrong(const char* key,
                                        std::string_view what) const {
  return Fail(ErrorCode::kCorrupt, "{}: key \"{}\" {}", path_, key, what);
}

Result<std::optional<int64_t>> JsonFields::Int(const char* key, int64_t low,
                                               int64_t high) const {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_integer()) {
    return Wrong(key, fmt::format("is {}, not an integer", Describe(*value)));
  }
  const bool is_huge = value->is_number_unsigned() &&
                       !std::in_range<int64_t>(value->get<uint64_t>());
  const int64_t number = is_huge ? 0 : value->get<int64_t>();
  if (is_huge || number < low || number > high) {
    return Wrong(key, fmt::format("is {}; it must be from {} to {}",
                                  value->dump(), low, high));
  }
  return number;
}

Result<std::optional<size_t>> JsonFields::Extent(const char* key, size_t low,
                                                 size_t high) const {
  TC_ASSIGN_OR_RETURN(const auto value, Int(key, static_cast<int64_t>(low),
                                            static_cast<int64_t>(high)));
  if (!value) return std::nullopt;
  return static_cast<size_t>(*value);
}

Result<std::optional<double>> JsonFields::Float(const char* key) const {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    return Wrong(key, fmt::format("is {}, not a number", Describe(*value)));
  }
  const double number = value->get<double>();
  if (!std::isfinite(number)) return Wrong(key, "is not finite");
  return number;
}

Result<std::optional<bool>> JsonFields::Bool(const char* key) const {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) {
    return Wrong(key,
                 fmt::format("is {}, not true or false", value->type_name()));
  }
  return value->get<bool>();
}

Result<std::optional<std::string>> JsonFields::String(const char* key) const {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    return Wrong(key, fmt::format("is {}, not a string", value->type_name()));
  }
  return value->get<std::string>();
}

Result<int64_t> JsonFields::RequireInt(const char* key, int64_t low,
                                       int64_t high) const {
  TC_ASSIGN_OR_RETURN(const auto value, Int(key, low, high));
  if (!value) return Wrong(key, "is missing");
  return *value;
}

Result<size_t> JsonFields::RequireExtent(const char* key, size_t low,
                                         size_t high) const {
  TC_ASSIGN_OR_RETURN(const auto value, Extent(key, low, high));
  if (!value) return Wrong(key, "is missing");
  return *value;
}

Result<double> JsonFields::RequireFloat(const char* key) const {
  TC_ASSIGN_OR_RETURN(const auto value, Float(key));
  if (!value) return Wrong(key, "is missing");
  return *value;
}

Result<std::string> JsonFields::RequireString(const char* key) const {
  TC_ASSIGN_OR_RETURN(auto value, String(key));
  if (!value) return Wrong(key, "is missing");
  return std::move(*value);
}

}  // namespace thermocline::importer
