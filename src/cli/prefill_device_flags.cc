#include "cli/prefill_device_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/quote.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/parse_text.h"
#include "cli/static_device_opener.h"

namespace thermocline::cli {
namespace {

constexpr int64_t kMostGraphRows = 4096;

Status StoreWeightForm(const std::string& text, PrefillDeviceFlags& flags) {
  const auto form = npu::ParseWeightForm(text);
  if (!form) return NotOneOf(text, npu::ListWeightForms());
  flags.weights = *form;
  return {};
}

Status StoreParam(const std::string& text, PrefillDeviceFlags& flags) {
  if (text == "auto") {
    flags.weights_are_inputs.reset();
  } else if (text == "on" || text == "off") {
    flags.weights_are_inputs = text == "on";
  } else {
    return NotOneOf(text, "on, off, auto");
  }
  return {};
}

Status StoreCheck(const std::string& text, PrefillDeviceFlags& flags) {
  using enum engine::PromptCheck;
  if (text == "fail") {
    flags.check = kFail;
  } else if (text == "warn") {
    flags.check = kWarn;
  } else if (text == "off") {
    flags.check = kOff;
  } else {
    return NotOneOf(text, "fail, warn, off");
  }
  return {};
}

bool NamesHost(const PrefillDeviceFlags& flags) {
  return !flags.names.empty() && flags.names.back() == kHostName;
}

// What is asked for that only a prefill device can do; empty: nothing.
std::string_view NeedsPrefillDevice(const PrefillDeviceFlags& flags) {
  if (flags.weights != npu::WeightForm::kExact) return "--npu-weights";
  if (flags.weights_are_inputs) return "--npu-param";
  if (flags.check != engine::PromptCheck::kWarn) return "--npu-check";
  if (!flags.rows.empty()) return "--npu-tokens";
  if (flags.library) return "--openvino-lib";
  return "";
}

}  // namespace

void AddPrefillDeviceFlags(CLI::App& app, PrefillDeviceFlags& flags) {
  AddParsed(app, "--prefill-device", "NAME,...",
            "Who computes prompts: OpenVINO's devices (NPU, GPU, CPU), "
            "reference (slow, for tests), host; tried in turn (default host)",
            [&flags](const std::string& text) {
              return StoreStaticDevices(text, /*takes_host=*/true, flags.names);
            });
  app.add_flag("--no-fallback", flags.no_fallback,
               "An error, where none of --prefill-device can; else the host "
               "computes prompts");
  AddParsed(app, "--npu-weights", "FORM",
            "Weights on the prefill device: " + npu::ListWeightForms() +
                " (default exact: the file's numbers where it can have them)",
            [&flags](const std::string& text) {
              return StoreWeightForm(text, flags);
            });
  AddParsed(
      app, "--npu-param", "MODE",
      "Weights there are inputs of one graph for all layers (on), or "
      "constants (off); auto (default): on with --ram",
      [&flags](const std::string& text) { return StoreParam(text, flags); });
  AddParsed(
      app, "--npu-check", "MODE",
      "Compare the device with the host when it is opened: fail (do not "
      "use one that differs), warn (default), off",
      [&flags](const std::string& text) { return StoreCheck(text, flags); });
  AddIntList(app, "--npu-tokens", flags.rows, 1, kMostGraphRows,
             "Rows of the graphs there, ascending (default 128); prompts of "
             "fewer than a quarter of the first are the host's");
  AddPath(app, "--openvino-lib", flags.library, "PATH",
          "OpenVINO's C library, or the folder that has it (default: "
          "$THERMOCLINE_OPENVINO, then the system's)");
}

engine::PromptDeviceOptions PromptOptionsOf(const PrefillDeviceFlags& flags) {
  engine::PromptDeviceOptions options;
  options.is_wanted = !flags.names.empty() && flags.names.front() != kHostName;
  options.host_takes_over = !flags.no_fallback;
  options.graphs.weights = flags.weights;
  if (!flags.rows.empty()) options.graphs.rows = flags.rows;
  options.weights_are_inputs = flags.weights_are_inputs;
  options.check = flags.check;
  return options;
}

Status OpenPrefillDevices(const PrefillDeviceFlags& flags,
                          engine::PromptDeviceOptions& options) {
  if (flags.no_fallback && (flags.names.empty() || NamesHost(flags))) {
    return Fail(ErrorCode::kInvalidArgument,
                "--no-fallback: --prefill-device has to name devices, and not "
                "the host");
  }
  const std::string_view needing = NeedsPrefillDevice(flags);
  if (!needing.empty() && flags.names.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "{} is for a device that computes prompts: name one by "
                "--prefill-device",
                needing);
  }
  StaticDeviceOpener opener(flags.library);
  Status last;
  for (const std::string& name : flags.names) {
    if (name == kHostName) break;
    auto device = opener.Open(name);
    if (device.has_value()) {
      options.devices.push_back(flags.keeps_programs
                                    ? npu::KeepPrograms(*std::move(device))
                                    : *std::move(device));
      continue;
    }
    LogWarning("--prefill-device {}: {}", Escape(name), device.error().message);
    last = tl::unexpected(std::move(device).error());
  }
  if (!options.devices.empty()) return {};
  if (flags.no_fallback) return last;
  if (options.is_wanted) LogWarning("the host computes prompts");
  options.is_wanted = false;
  return {};
}

std::string FormatPrefillTimes(std::string_view who,
                               const npu::StaticTimes& times,
                               size_t num_layers) {
  if (times.num_rows == 0) return "";
  const auto ms = [&](double seconds) {
    return 1e3 * seconds / static_cast<double>(std::max<size_t>(num_layers, 1));
  };
  return fmt::format(
      "{}: {} and {} of padding, {:.1f} tokens/s; ms a layer: "
      "{:.2f} "
      "= infer {:.2f}, waiting for weights {:.2f} (read {:.2f}, unpack "
      "{:.2f}), "
      "for keys and values {:.2f} (of {:.2f}); compiled in {:.1f} s\n",
      who, Plural(times.num_rows, "row"), times.num_padded,
      static_cast<double>(times.num_rows) / times.whole_s, ms(times.whole_s),
      ms(times.infer_s), ms(times.unpack_wait_s), ms(times.read_s),
      ms(times.unpack_s), ms(times.hand_over_wait_s), ms(times.hand_over_s),
      times.compile_s);
}

std::string FormatPrefillTimes(const engine::Session& session) {
  const bool is_whole = session.device_token_bytes(0).has_value();
  return FormatPrefillTimes(is_whole ? "static graphs" : "prefill device",
                            session.prompt_times(),
                            session.model().config().layers.size());
}

}  // namespace thermocline::cli
