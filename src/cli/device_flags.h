// The flags by which a command names a device and how much of it may be used.
#ifndef THERMOCLINE_CLI_DEVICE_FLAGS_H_
#define THERMOCLINE_CLI_DEVICE_FLAGS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/timeline.h"
#include "device/device.h"
#include "engine/device/placement_rules.h"
#include "engine/engine_options.h"

namespace thermocline::cli {

struct DeviceFlags {
  // none, sim, cuda, or cuda with a number; empty: cuda, if another flag wants
  // a device.
  std::string name;
  std::vector<uint64_t> vrams;         // bytes; none: what is free
  std::optional<std::string> machine;  // of sim
  engine::PlacementRules rules;
  std::optional<int> cuda_of_tensors;  // that -ot named by number
  std::optional<std::string> plan_path;
  // A plan for memory alone (planned_storage.h): wants no device.
  std::optional<std::string> storage_plan_path;
  std::optional<std::string> counts_path;
  engine::DeviceLoss on_loss = engine::DeviceLoss::kFail;

  // Of one session; OpenDevice refuses several.
  std::optional<uint64_t> vram() const {
    return vrams.empty() ? std::nullopt : std::optional(vrams.front());
  }
};

// --device, --vram, --machine, --on-device-loss; -ngl, --n-cpu-moe, --cpu-moe
// and -ot with llama.cpp's meaning.
void AddDeviceFlags(CLI::App& app, DeviceFlags& flags);

// The device that they want, for sessions of any budget: those that keep to
// several of --vram say themselves which.
DeviceFlags OfAnyBudget(DeviceFlags flags);

// "cuda", or "cuda" with a number.
bool IsCudaName(std::string_view name);

// Whether any is wanted.
bool WantsDevice(const DeviceFlags& flags);

// kInvalidArgument: flags that do not go together.
Status CheckDeviceFlags(const DeviceFlags& flags);

// Null: none. Errors of CheckDeviceFlags, device::OpenCuda and
// device::ReadMachine. The device draws what it does in the timeline, if there
// is one, which outlives it.
Result<std::shared_ptr<device::Device>> OpenDevice(
    const DeviceFlags& flags, Timeline* timeline = nullptr);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_DEVICE_FLAGS_H_
