// The flags by which a command says who computes prompts.
#ifndef THERMOCLINE_CLI_PREFILL_DEVICE_FLAGS_H_
#define THERMOCLINE_CLI_PREFILL_DEVICE_FLAGS_H_

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/prompt_device.h"
#include "engine/session.h"
#include "npu/forms.h"
#include "npu/static_model.h"

namespace thermocline::cli {

struct PrefillDeviceFlags {
  // OpenVINO's names, or "reference"; "host" ends the list. Empty: the host.
  std::vector<std::string> names;
  bool no_fallback = false;
  npu::WeightForm weights = npu::WeightForm::kExact;
  std::optional<bool> weights_are_inputs;  // absent: auto
  engine::PromptCheck check = engine::PromptCheck::kWarn;
  std::optional<std::string> library;
  std::vector<int64_t> rows;  // ascending; empty: npu::StaticOptions'
  // Sessions that come in turn share what was compiled (npu::KeepPrograms).
  bool keeps_programs = false;
};

// --prefill-device, --no-fallback, --npu-weights, --npu-param, --npu-check,
// --npu-tokens, --openvino-lib.
void AddPrefillDeviceFlags(CLI::App& app, PrefillDeviceFlags& flags);

// What they ask for without the devices: so much that memory can be planned.
engine::PromptDeviceOptions PromptOptionsOf(const PrefillDeviceFlags& flags);

// Opens those that can be; the others are a warning each. kInvalidArgument:
// flags that do not go together. Where there is no fallback, the error of the
// last one if none can be opened.
Status OpenPrefillDevices(const PrefillDeviceFlags& flags,
                          engine::PromptDeviceOptions& options);

// What a run's rows took on `who` ("prefill device"), layer by layer as
// PowerInfer-2's Fig. 8; nothing if no device computed any.
std::string FormatPrefillTimes(std::string_view who,
                               const npu::StaticTimes& times,
                               size_t num_layers);
// Of a session: who is "prefill device", or, of one that a device computes
// whole, "static graphs".
std::string FormatPrefillTimes(const engine::Session& session);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_PREFILL_DEVICE_FLAGS_H_
