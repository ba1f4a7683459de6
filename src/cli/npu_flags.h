// The flags of `thermocline npu`: on which device, and how graphs are made.
#ifndef THERMOCLINE_CLI_NPU_FLAGS_H_
#define THERMOCLINE_CLI_NPU_FLAGS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/commands.h"
#include "npu/forms.h"
#include "npu/static_device.h"
#include "npu/static_model.h"

namespace thermocline::cli {

struct NpuDeviceFlags {
  std::vector<std::string> names = {"NPU", "GPU", "CPU"};  // tried in turn
  std::optional<std::string> library;
  std::optional<std::string> cache;
  bool is_exact = false;
  int64_t most_seconds = 0;
};

// --device, --openvino-lib, --cache, --accuracy, --compile-limit.
void AddNpuDeviceFlags(CLI::App& app, NpuDeviceFlags& flags);

// The first of them that can be opened; what is wrong with the others is a
// warning each. The last one's error, if none can.
Result<std::shared_ptr<npu::StaticDevice>> OpenNpuDevice(
    const NpuDeviceFlags& flags);

// How a device compiles, as the flags say.
npu::CompileOptions CompileOptionsOf(const NpuDeviceFlags& flags,
                                     int64_t num_threads);

// --weights, one form or, separated by commas, several.
void AddWeightForms(CLI::App& app, std::vector<npu::WeightForm>& forms,
                    bool takes_several);

// The subcommands, to `npu`.
void AddNpuExportCommand(CLI::App& npu, Action& action);
void AddNpuRunCommand(CLI::App& npu, Action& action);
void AddNpuBenchCommand(CLI::App& npu, Action& action);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_NPU_FLAGS_H_
