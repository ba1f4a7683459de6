// What plan files are made of: runs of numbers, and JSON whose keys are
// checked.
#ifndef THERMOCLINE_PLANNER_PLAN_TEXT_H_
#define THERMOCLINE_PLANNER_PLAN_TEXT_H_

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/profile_file.h"

namespace thermocline::planner {

inline constexpr std::string_view kPlanFormat = "thermocline-plan";
inline constexpr uint64_t kPlanVersion = 1;
inline constexpr uint64_t kMaxLayers = 1 << 16;
inline constexpr uint64_t kMaxItems = 1 << 22;  // neurons, experts, widths
// Of all layers together: a short text can name many.
inline constexpr uint64_t kMaxAllItems = 1 << 25;

// "0-63,70": ascending numbers, neighbours as runs.
std::string FormatRuns(std::span<const uint32_t> items);
// What FormatRuns can have made of numbers below `count`; nullopt: it cannot.
std::optional<std::vector<uint32_t>> ParseRuns(std::string_view text,
                                               uint32_t count);

// One JSON object without a key twice and without deep nesting. kCorrupt.
Result<nlohmann::json> ParsePlanJson(std::string_view text,
                                     const std::string& path);

// The keys of one object, each of which has to be there and be what it is to
// be. kInvalidArgument names file and key.
class PlanFields {
 public:
  // Both outlive it.
  PlanFields(const nlohmann::json& json, const std::string& path,
             std::string prefix);

  bool Has(const std::string& key) const { return json_->contains(key); }
  Result<std::string> Text(const std::string& key);
  Result<uint64_t> Whole(const std::string& key, uint64_t max);
  Result<bool> Bool(const std::string& key);
  // Or null.
  Result<std::optional<double>> Seconds(const std::string& key);
  // A number from 0 to `max`, or above 0.
  Result<double> Number(const std::string& key, double max);
  Result<double> Rate(const std::string& key, double max);
  Result<uint64_t> Hash(const std::string& key);  // 16 hexadecimal digits
  Result<const nlohmann::json*> Array(const std::string& key);
  Result<PlanFields> Object(const std::string& key);

  // Whether a key is left that nobody asked for. `format` has the keys.
  Status CheckNoOthers(std::string_view format = "plan.md") const;
  tl::unexpected<Error> Wrong(const std::string& key,
                              std::string_view must_be) const;

 private:
  Result<const nlohmann::json*> Take(const std::string& key,
                                     std::string_view must_be);

  const nlohmann::json* json_;
  const std::string* path_;
  std::string prefix_;
  std::set<std::string, std::less<>> known_;
};

// A JSON text of any bytes; what is no UTF-8 becomes a mark.
std::string JsonText(const std::string& text);

// The key "model" of plans: {"architecture": ..., "hash": ...}.
std::string FormatFingerprint(const model::ModelFingerprint& model);
Result<model::ModelFingerprint> ReadFingerprint(PlanFields& top);

// Key "format" is `format`, and "version" one that this program reads.
// kInvalidArgument, kUnsupported.
Status ReadFormat(PlanFields& top, std::string_view format, uint64_t version,
                  const std::string& path);

}  // namespace thermocline::planner

#endif  // THERMOCLINE_PLANNER_PLAN_TEXT_H_
