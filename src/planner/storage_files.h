// Plans for models larger than memory, and machines to plan for, as files.
// Untrusted input. Format: docs/formats/storage-plan.md.
#ifndef THERMOCLINE_PLANNER_STORAGE_FILES_H_
#define THERMOCLINE_PLANNER_STORAGE_FILES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/profile_file.h"
#include "planner/storage_machine.h"

namespace thermocline::planner {

inline constexpr std::string_view kStoragePlanFormat =
    "thermocline-storage-plan";
inline constexpr std::string_view kStorageMachineFormat =
    "thermocline-storage-machine";
inline constexpr uint64_t kStorageFileVersion = 1;
inline constexpr uint64_t kMaxStorageFileBytes = uint64_t{1} << 20;
inline constexpr uint32_t kMaxCpu = 1 << 16;

struct StoragePlanFile {
  // What the plan is for.
  model::ModelFingerprint model;
  std::string machine;  // StorageMachine::name
  uint64_t budget = 0;  // bytes of RAM for all of it
  uint64_t context = 0;
  std::string mode;  // of the FFNs: "fast"
  std::string unit;  // "records", "experts", "layers", or "none": all fits
  // What it says.
  std::string policy;  // empty where there is nothing to choose among
  std::vector<uint32_t> compute_cpus, io_cpus;  // ascending
  uint64_t cache_bytes = 0;
  // What it predicts of a generated token.
  double seconds = 0.0;
  double num_missed = 0.0, read_bytes = 0.0;

  bool operator==(const StoragePlanFile&) const = default;
};

// Whether a text is meant to be such a plan, or machine; it may be a bad one.
bool IsStoragePlan(std::string_view text);
bool IsStorageMachine(std::string_view text);

// Formats come back equal. `path` is named in errors. kCorrupt: not JSON, a key
// twice, too large; kInvalidArgument: a key is missing, unknown, or not what it
// has to be, named, or CheckMachine's errors; kUnsupported: a version to come.
std::string FormatStoragePlan(const StoragePlanFile& plan);
Result<StoragePlanFile> ParseStoragePlan(std::string_view text,
                                         const std::string& path);
std::string FormatStorageMachine(const StorageMachine& machine);
Result<StorageMachine> ParseStorageMachine(std::string_view text,
                                           const std::string& path);

// Besides: kNotFound, kIo as os::ReadFile; writing replaces atomically.
Result<StoragePlanFile> ReadStoragePlan(const std::string& path);
Status WriteStoragePlan(const StoragePlanFile& plan, const std::string& path);
Result<StorageMachine> ReadStorageMachine(const std::string& path);
Status WriteStorageMachine(const StorageMachine& machine,
                           const std::string& path);

}  // namespace thermocline::planner

#endif  // THERMOCLINE_PLANNER_STORAGE_FILES_H_
