#include "npu/ov_properties.h"

#include <algorithm>
#include <array>

namespace thermocline::npu {
namespace {

constexpr std::string_view kNpuw = "NPU:npuw-cpu";

enum class When : uint8_t { kAlways, kExact, kFast };

struct Setting {
  std::string_view kind;  // of device; empty: all but npuw
  When when;
  std::string_view key;
  std::string_view value;
  bool is_needed = false;  // else only where it is supported
};

// ACCURACY alone gives F32 and exact weights on the CPU of 2026; older ones
// take each hint by its own name, and a precision of F32 alone leaves them the
// activations of 8 bits.
constexpr std::array<Setting, 8> kSettings = {{
    {"", When::kFast, "PERFORMANCE_HINT", "LATENCY"},
    {"", When::kExact, "EXECUTION_MODE_HINT", "ACCURACY"},
    {"", When::kExact, "INFERENCE_PRECISION_HINT", "f32"},
    {"", When::kExact, "DYNAMIC_QUANTIZATION_GROUP_SIZE", "0"},
    {"", When::kExact, "KV_CACHE_PRECISION", "f16"},
    // Sums of squares in F16 overflow. In every version, though not in the list
    // of every one.
    {"NPU", When::kAlways, "NPU_COMPILATION_MODE_PARAMS",
     "compute-layers-with-higher-precision=Sqrt,Power,ReduceMean,Add_RMSNorm",
     true},
    {kNpuw, When::kAlways, "NPU_USE_NPUW", "YES", true},
    {kNpuw, When::kAlways, "NPUW_DEVICES", "CPU", true},
}};

bool IsAmong(std::string_view key, std::string_view words) {
  constexpr std::string_view kBetween = " ,";
  while (!words.empty()) {
    const size_t end = std::min(words.find_first_of(kBetween), words.size());
    if (words.substr(0, end) == key) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

bool IsMeant(const Setting& setting, const OvDeviceName& device,
             bool is_exact) {
  if (setting.when == When::kExact && !is_exact) return false;
  if (setting.when == When::kFast && is_exact) return false;
  if (device.is_npuw) return setting.kind == kNpuw;
  return setting.kind.empty() || setting.kind == device.KindOf();
}

}  // namespace

OvDeviceName ParseOvDevice(const std::string& given) {
  if (given == kNpuw) {
    return {.given = given, .plugin = "NPU", .is_npuw = true};
  }
  return {.given = given, .plugin = given};
}

OvProperties PropertiesOf(const OvDeviceName& device,
                          const CompileOptions& options,
                          std::string_view supported) {
  OvProperties properties;
  for (const Setting& setting : kSettings) {
    if (!IsMeant(setting, device, options.is_exact)) continue;
    if (!setting.is_needed && !IsAmong(setting.key, supported)) continue;
    properties.emplace_back(setting.key, setting.value);
  }
  const bool is_cpu = device.KindOf() == "CPU";
  if (is_cpu && !options.is_exact && options.is_one_row &&
      IsAmong("INFERENCE_PRECISION_HINT", supported)) {
    properties.emplace_back("INFERENCE_PRECISION_HINT", "f32");
  }
  if (is_cpu && options.num_threads > 0) {
    properties.emplace_back("INFERENCE_NUM_THREADS",
                            std::to_string(options.num_threads));
  }
  // A CPU's compile is hardly longer than reading what it stored would be, and
  // what it stores is all weights once more.
  if (!is_cpu && !options.cache_dir.empty()) {
    properties.emplace_back("CACHE_DIR", options.cache_dir);
  }
  return properties;
}

}  // namespace thermocline::npu
