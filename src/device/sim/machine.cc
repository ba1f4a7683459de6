#include "device/sim/machine.h"

#include <cmath>
#include <exception>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/quote.h"
#include "os/file.h"

namespace thermocline::device {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kFormat = "thermocline-machine";
constexpr int kVersion = 1;
constexpr std::string_view kVersionText = "1";
constexpr int kMaxDepth = 4;  // the file itself has 2
constexpr double kMaxRate = 1e15;
constexpr double kMaxSeconds = 1.0;
constexpr double kMaxMemory = 1e15;

// Never leaves ParseText.
class BadMachineText : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Stops the parser at nesting that no machine has, and at a key whose second
// value would hide the first.
class MachineGuard {
 public:
  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    using Event = Json::parse_event_t;
    if (depth > kMaxDepth) throw BadMachineText("nested too deep");
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::object_end) keys_.pop_back();
    if (event == Event::key) {
      const auto& key = parsed.get_ref<const Json::string_t&>();
      if (!keys_.back().insert(key).second) {
        throw BadMachineText(fmt::format("key {} twice", Quote(key)));
      }
    }
    return true;
  }

 private:
  std::vector<std::set<std::string>> keys_;  // of the open objects
};

Result<Json> ParseText(std::string_view text, const std::string& path) {
  if (text.size() > kMaxMachineBytes) {
    return Fail(ErrorCode::kCorrupt, "{}: {} bytes, more than the {} of {}",
                path, text.size(), kMaxMachineBytes, "a machine file");
  }
  MachineGuard guard;
  try {
    return Json::parse(text.begin(), text.end(), std::ref(guard));
  } catch (const BadMachineText& bad) {
    return Fail(ErrorCode::kCorrupt, "{}: {}", path, bad.what());
  } catch (const Json::parse_error& error) {
    return Fail(ErrorCode::kCorrupt,
                "{}: not valid JSON at byte {}; a machine file is one JSON "
                "object",
                path, error.byte);
  } catch (const std::exception&) {
    return Fail(ErrorCode::kCorrupt, "{}: not valid JSON: a number too large",
                path);
  }
}

// Takes keys out of an object; what is left at the end is unknown.
class MachineFields {
 public:
  MachineFields(const Json& json, const std::string& path, std::string prefix)
      : json_(json), path_(path), prefix_(std::move(prefix)) {}

  Result<const Json*> Take(const char* key, std::string_view must_be) {
    known_.insert(key);
    const auto found = json_.find(key);
    if (found == json_.end()) {
      return Fail(ErrorCode::kInvalidArgument,
                  "{}: key \"{}{}\" is missing; it must be {}", path_, prefix_,
                  key, must_be);
    }
    return &*found;
  }

  Result<const Json*> Object(const char* key) {
    TC_ASSIGN_OR_RETURN(const Json* value, Take(key, "an object"));
    if (!value->is_object()) return Wrong(key, "an object");
    return value;
  }

  Result<std::string> Text(const char* key) {
    constexpr std::string_view kMustBe = "a text that is not empty";
    TC_ASSIGN_OR_RETURN(const Json* value, Take(key, kMustBe));
    if (!value->is_string() || value->get_ref<const std::string&>().empty()) {
      return Wrong(key, kMustBe);
    }
    return value->get<std::string>();
  }

  // In (0, max], or [0, max].
  Result<double> Number(const char* key, double max, bool may_be_zero,
                        std::string_view unit) {
    const std::string must_be =
        fmt::format("a number of {}, {} and at most {:g}", unit,
                    may_be_zero ? "0 or more" : "more than 0", max);
    TC_ASSIGN_OR_RETURN(const Json* value, Take(key, must_be));
    if (!value->is_number()) return Wrong(key, must_be);
    const double number = value->get<double>();
    const bool is_low = may_be_zero ? number < 0.0 : number <= 0.0;
    if (!std::isfinite(number) || is_low || number > max) {
      return Wrong(key, must_be);
    }
    return number;
  }

  Result<double> Rate(const char* key) {
    return Number(key, kMaxRate, false, "bytes per second");
  }
  Result<double> Seconds(const char* key) {
    return Number(key, kMaxSeconds, true, "seconds");
  }

  // Whatever stands behind a key "comment" is for people.
  Status CheckNoOthers() const {
    for (const auto& [key, value] : json_.items()) {
      if (key == "comment" || known_.contains(key)) continue;
      return Fail(ErrorCode::kInvalidArgument,
                  "{}: key \"{}{}\" is unknown; the keys are those of "
                  "docs/formats/machine.md, and \"comment\"",
                  path_, prefix_, Escape(key));
    }
    return {};
  }

  tl::unexpected<Error> Wrong(const char* key, std::string_view must_be) const {
    return Fail(ErrorCode::kInvalidArgument, "{}: key \"{}{}\" must be {}",
                path_, prefix_, key, must_be);
  }

 private:
  const Json& json_;
  const std::string& path_;
  std::string prefix_;
  std::set<std::string, std::less<>> known_;
};

Status CheckHead(MachineFields& fields) {
  TC_ASSIGN_OR_RETURN(const std::string format, fields.Text("format"));
  if (format != kFormat) {
    return fields.Wrong("format", fmt::format("\"{}\"", kFormat));
  }
  TC_ASSIGN_OR_RETURN(const Json* version,
                      fields.Take("version", kVersionText));
  if (*version != kVersion) return fields.Wrong("version", kVersionText);
  return {};
}

Status ReadDevice(MachineFields fields, Machine& machine) {
  TC_ASSIGN_OR_RETURN(machine.name, fields.Text("name"));
  TC_ASSIGN_OR_RETURN(
      const double memory,
      fields.Number("memory_bytes", kMaxMemory, false, "bytes"));
  if (memory != std::floor(memory)) {
    return fields.Wrong("memory_bytes", "a whole number of bytes");
  }
  machine.memory_bytes = static_cast<uint64_t>(memory);
  TC_ASSIGN_OR_RETURN(machine.device_rate, fields.Rate("bytes_per_second"));
  TC_ASSIGN_OR_RETURN(machine.launch_latency, fields.Seconds("launch_seconds"));
  TC_ASSIGN_OR_RETURN(machine.graph_op_latency,
                      fields.Seconds("graph_op_seconds"));
  // Polling would never end if it took no time.
  TC_ASSIGN_OR_RETURN(
      machine.sync_latency,
      fields.Number("synchronise_seconds", kMaxSeconds, false, "seconds"));
  return fields.CheckNoOthers();
}

Status ReadLink(MachineFields fields, Machine& machine) {
  TC_ASSIGN_OR_RETURN(machine.up_rate, fields.Rate("up_bytes_per_second"));
  TC_ASSIGN_OR_RETURN(machine.down_rate, fields.Rate("down_bytes_per_second"));
  TC_ASSIGN_OR_RETURN(machine.copy_latency, fields.Seconds("copy_seconds"));
  return fields.CheckNoOthers();
}

Status ReadHost(MachineFields fields, Machine& machine) {
  TC_ASSIGN_OR_RETURN(machine.bus_rate, fields.Rate("bus_bytes_per_second"));
  TC_ASSIGN_OR_RETURN(machine.pool_rate, fields.Rate("pool_bytes_per_second"));
  return fields.CheckNoOthers();
}

}  // namespace

Result<Machine> ParseMachine(std::string_view text, const std::string& path) {
  TC_ASSIGN_OR_RETURN(const Json json, ParseText(text, path));
  if (!json.is_object()) {
    return Fail(ErrorCode::kCorrupt,
                "{}: not a JSON object, which a machine file is", path);
  }
  Machine machine;
  MachineFields fields(json, path, "");
  TC_RETURN_IF_ERROR(CheckHead(fields));
  TC_ASSIGN_OR_RETURN(const Json* device, fields.Object("device"));
  TC_RETURN_IF_ERROR(
      ReadDevice(MachineFields(*device, path, "device."), machine));
  TC_ASSIGN_OR_RETURN(const Json* link, fields.Object("link"));
  TC_RETURN_IF_ERROR(ReadLink(MachineFields(*link, path, "link."), machine));
  TC_ASSIGN_OR_RETURN(const Json* host, fields.Object("host"));
  TC_RETURN_IF_ERROR(ReadHost(MachineFields(*host, path, "host."), machine));
  TC_RETURN_IF_ERROR(fields.CheckNoOthers());
  return machine;
}

Result<Machine> ReadMachine(const std::string& path) {
  TC_ASSIGN_OR_RETURN(const std::string text,
                      os::ReadFile(path, kMaxMachineBytes));
  return ParseMachine(text, path);
}

}  // namespace thermocline::device
