#include "model/key_reader.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace thermocline::model {

std::string KeyReader::FullKey(std::string_view suffix) const {
  return fmt::format("{}.{}", architecture_, suffix);
}

tl::unexpected<Error> KeyReader::Missing(std::string_view suffix) const {
  return Fail(ErrorCode::kCorrupt, "{}: key \"{}\" is missing", file_.path(),
              FullKey(suffix));
}

Result<int64_t> KeyReader::CheckRange(std::string_view suffix, int64_t value,
                                      int64_t low, int64_t high) const {
  if (value < low || value > high) {
    return Wrong(suffix, value,
                 fmt::format("{} to {} are possible", low, high));
  }
  return value;
}

Result<int64_t> KeyReader::RequireInt(std::string_view suffix, int64_t low,
                                      int64_t high) const {
  TC_ASSIGN_OR_RETURN(const auto value, file_.Int(FullKey(suffix)));
  if (!value) return Missing(suffix);
  return CheckRange(suffix, *value, low, high);
}

Result<int64_t> KeyReader::IntOr(std::string_view suffix, int64_t low,
                                 int64_t high, int64_t fallback) const {
  if (file_.Find(FullKey(suffix)) == nullptr) return fallback;
  return RequireInt(suffix, low, high);
}

Result<size_t> KeyReader::RequireExtent(std::string_view suffix, size_t low,
                                        size_t high) const {
  TC_ASSIGN_OR_RETURN(const int64_t value,
                      RequireInt(suffix, static_cast<int64_t>(low),
                                 static_cast<int64_t>(high)));
  return static_cast<size_t>(value);
}

Result<size_t> KeyReader::ExtentOr(std::string_view suffix, size_t low,
                                   size_t high, size_t fallback) const {
  if (file_.Find(FullKey(suffix)) == nullptr) return fallback;
  return RequireExtent(suffix, low, high);
}

Result<std::vector<size_t>> KeyReader::PerLayer(
    std::string_view suffix, size_t num_layers, size_t low, size_t high,
    std::optional<size_t> fallback) const {
  const auto same = [num_layers](size_t value) {
    return std::vector<size_t>(num_layers, value);
  };
  const gguf::KeyValue* kv = file_.Find(FullKey(suffix));
  if (kv == nullptr && fallback) return same(*fallback);
  if (kv == nullptr) return Missing(suffix);
  if (kv->type != gguf::ValueType::kArray) {
    TC_ASSIGN_OR_RETURN(const size_t value, RequireExtent(suffix, low, high));
    return same(value);
  }
  const auto* values = kv->Elements<int64_t>();
  if (values == nullptr) {
    return Wrong(suffix, "an array", "its elements must be integers");
  }
  if (values->size() != num_layers) {
    return Wrong(suffix, fmt::format("an array of {} elements", values->size()),
                 fmt::format("the model has {} layers", num_layers));
  }
  for (const int64_t value : *values) {
    TC_RETURN_IF_ERROR(CheckRange(suffix, value, static_cast<int64_t>(low),
                                  static_cast<int64_t>(high)));
  }
  return std::vector<size_t>(values->begin(), values->end());
}

Result<double> KeyReader::RequireFloat(std::string_view suffix, double low,
                                       double high) const {
  TC_ASSIGN_OR_RETURN(const auto value, file_.Float(FullKey(suffix)));
  if (!value) return Missing(suffix);
  if (!(*value >= low && *value <= high)) {  // NaN too
    return Wrong(suffix, *value,
                 fmt::format("{} to {} are possible", low, high));
  }
  return *value;
}

Result<double> KeyReader::FloatOr(std::string_view suffix, double low,
                                  double high, double fallback) const {
  if (file_.Find(FullKey(suffix)) == nullptr) return fallback;
  return RequireFloat(suffix, low, high);
}

}  // namespace thermocline::model
