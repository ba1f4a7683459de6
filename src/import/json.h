// JSON from untrusted files: parsed with limits, read with types and ranges.
#ifndef THERMOCLINE_IMPORT_JSON_H_
#define THERMOCLINE_IMPORT_JSON_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace thermocline::importer {

using Json = nlohmann::json;

// kCorrupt, naming `path`: not JSON or not UTF-8, with the place; a key twice
// in one object, with the key; nesting deeper than kMaxJsonDepth. Infinity,
// -Infinity and NaN, which Python writes, become strings: who needs a number in
// their place says so, and nobody else minds.
inline constexpr int kMaxJsonDepth = 64;
Result<Json> ParseJson(std::string_view text, const std::string& path);

// Reads the members of a JSON object. A member that is null counts as absent.
// All errors are kCorrupt and name the path and the key. Refers to the object
// and does not own it.
class JsonFields {
 public:
  // kCorrupt unless `json` is an object.
  static Result<JsonFields> Of(const Json& json, std::string path);

  const std::string& path() const { return path_; }
  const Json* Find(const char* key) const;  // null: absent

  // nullopt: absent.
  Result<std::optional<int64_t>> Int(const char* key, int64_t low,
                                     int64_t high) const;
  // Of an extent; high at most 2^63 - 1.
  Result<std::optional<size_t>> Extent(const char* key, size_t low,
                                       size_t high) const;
  Result<std::optional<double>> Float(const char* key) const;
  Result<std::optional<bool>> Bool(const char* key) const;
  Result<std::optional<std::string>> String(const char* key) const;

  Result<int64_t> RequireInt(const char* key, int64_t low, int64_t high) const;
  Result<size_t> RequireExtent(const char* key, size_t low, size_t high) const;
  Result<double> RequireFloat(const char* key) const;
  Result<std::string> RequireString(const char* key) const;

  // Calls `visit` with each member's name and value, until one is an error.
  template <typename Visit>
  Status ForEach(const Visit& visit) const {
    for (const auto& [name, value] : json_->items()) {
      TC_RETURN_IF_ERROR(visit(name, value));
    }
    return {};
  }

  // The error "PATH: key "KEY" ...".
  tl::unexpected<Error> Wrong(const char* key, std::string_view what) const;

 private:
  JsonFields(const Json& json, std::string path)
      : json_(&json), path_(std::move(path)) {}
  const Json* json_;
  std::string path_;
};

}  // namespace thermocline::importer

#endif  // THERMOCLINE_IMPORT_JSON_H_
