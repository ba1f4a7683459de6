#include "cli/npu_flags.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "base/quote.h"
#include "cli/flags.h"
#include "cli/parse_text.h"
#include "cli/static_device_opener.h"

namespace thermocline::cli {
namespace {

constexpr int64_t kMostCompileSeconds = 86400;

Status StoreForms(const std::string& text, bool takes_several,
                  std::vector<npu::WeightForm>& forms) {
  forms.clear();
  for (const std::string& name : SplitAtCommas(text)) {
    const auto form = npu::ParseWeightForm(name);
    if (!form) return NotOneOf(name, npu::ListWeightForms());
    forms.push_back(*form);
  }
  if (takes_several || forms.size() == 1) return {};
  return Fail(ErrorCode::kInvalidArgument, "takes one form of weights");
}

}  // namespace

void AddNpuDeviceFlags(CLI::App& app, NpuDeviceFlags& flags) {
  AddParsed(app, "--device", "NAME,...",
            "OpenVINO's devices, tried in turn, or reference, which is slow "
            "(default NPU,GPU,CPU)",
            [&flags](const std::string& text) {
              return StoreStaticDevices(text, /*takes_host=*/false,
                                        flags.names);
            });
  AddPath(app, "--openvino-lib", flags.library, "PATH",
          "OpenVINO's C library, or the folder that has it (default: "
          "$THERMOCLINE_OPENVINO, then the system's)");
  AddPath(app, "--cache", flags.cache, "DIR",
          "Where the device keeps compiled graphs; not used by CPU");
  app.add_flag("--accuracy", flags.is_exact,
               "Sums in F32 and weights as they are, for comparisons; else as "
               "fast as the device can");
  AddInt(app, "--compile-limit", flags.most_seconds, 0, kMostCompileSeconds,
         "Seconds after which a compile is given up; 0: never (default 0)");
}

Result<std::shared_ptr<npu::StaticDevice>> OpenNpuDevice(
    const NpuDeviceFlags& flags) {
  StaticDeviceOpener opener(flags.library);
  for (size_t i = 0;; ++i) {
    auto device = opener.Open(flags.names[i]);
    if (device.has_value() || i + 1 == flags.names.size()) return device;
    LogWarning("--device {}: {}", Escape(flags.names[i]),
               device.error().message);
  }
}

npu::CompileOptions CompileOptionsOf(const NpuDeviceFlags& flags,
                                     int64_t num_threads) {
  return {.is_exact = flags.is_exact,
          .num_threads = static_cast<int>(num_threads),
          .cache_dir = flags.cache.value_or(""),
          .most_seconds = static_cast<double>(flags.most_seconds)};
}

void AddWeightForms(CLI::App& app, std::vector<npu::WeightForm>& forms,
                    bool takes_several) {
  AddParsed(
      app, "--weights", takes_several ? "FORM,..." : "FORM",
      "Weights in the graphs: " + npu::ListWeightForms() +
          " (default exact: the file's numbers where a device can have them)",
      [&forms, takes_several](const std::string& text) {
        return StoreForms(text, takes_several, forms);
      });
}

// A whole model as static graphs, NITRO's way. Prompts alone go to such a
// device by `run --prefill-device`.
void AddNpuCommand(CLI::App& parent, Action& action) {
  CLI::App* app = parent.add_subcommand(
      "npu", "Models as static graphs for NPUs, through OpenVINO");
  app->require_subcommand(0, 1);
  app->footer(
      "OpenVINO is loaded when it is needed; tools/fetch_openvino.sh fetches "
      "it.\n\nExamples:\n"
      "  thermocline npu export model.gguf -o graphs --weights i4-cw\n"
      "  thermocline npu run graphs --device NPU -p \"Once upon a time\"\n"
      "  thermocline npu bench model.gguf --device CPU --modes append,roll");
  AddNpuExportCommand(*app, action);
  AddNpuRunCommand(*app, action);
  AddNpuBenchCommand(*app, action);
}

}  // namespace thermocline::cli
