#include "cli/device_flags.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "base/quote.h"
#include "cli/flags.h"
#include "cli/parse_text.h"
#include "device/cuda/find_cuda.h"
#include "device/sim/machine.h"
#include "device/sim/sim_device.h"
#include "os/file.h"
#include "planner/plan_file.h"
#include "planner/plan_text.h"
#include "planner/storage_files.h"

namespace thermocline::cli {
namespace {

constexpr std::string_view kCuda = "cuda";
// More than any model has.
constexpr int64_t kAllLayers = int64_t{1} << 30;

// N of "cudaN", 0 of "cuda".
std::optional<int> CudaIndex(std::string_view name) {
  if (!name.starts_with(kCuda)) return std::nullopt;
  const std::string_view digits = name.substr(kCuda.size());
  if (digits.empty()) return 0;
  int index = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), index);
  const bool is_number = error == std::errc() &&
                         end == digits.data() + digits.size() && index >= 0;
  return is_number ? std::optional(index) : std::nullopt;
}

// What is asked for that only a device can do; empty: nothing.
std::string_view NeedsDevice(const DeviceFlags& flags) {
  if (!flags.vrams.empty()) return "--vram";
  // All layers on the host is what there is without one.
  if (flags.rules.num_layers.value_or(0) > 0) return "-ngl";
  if (flags.rules.num_host_experts == kAllLayers) return "--cpu-moe";
  if (flags.rules.num_host_experts > 0) return "--n-cpu-moe";
  if (!flags.rules.tensors.empty()) return "-ot";
  if (flags.on_loss != engine::DeviceLoss::kFail) return "--on-device-loss";
  if (flags.plan_path) return "--plan";
  if (flags.counts_path) return "--counts";
  return "";
}

std::string ToLower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

// One REGEX=WHERE of -ot.
Status StoreTensorRule(std::string_view text, DeviceFlags& flags) {
  const size_t at = text.rfind('=');
  if (at == std::string_view::npos || at == 0) {
    return Fail(ErrorCode::kInvalidArgument, "'{}' is not REGEX=host|device",
                Escape(text));
  }
  const std::string where = ToLower(text.substr(at + 1));
  const std::optional<int> cuda = CudaIndex(where);
  const bool on_host = where == "host" || where == "cpu";
  if (!on_host && where != "device" && !cuda) {
    return NotOneOf(text.substr(at + 1), "host, device, CPU, CUDA0");
  }
  if (cuda) flags.cuda_of_tensors = cuda;
  flags.rules.tensors.push_back({std::string(text.substr(0, at)), !on_host});
  return {};
}

Status StoreTensorRules(const std::string& text, DeviceFlags& flags) {
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    TC_RETURN_IF_ERROR(StoreTensorRule(
        std::string_view(text).substr(begin, end - begin), flags));
    begin = end + 1;
  }
  return {};
}

// Which of the two kinds it is, its own text says; what is bad in it is told of
// when it is read.
Status StorePlan(const std::string& path, DeviceFlags& flags) {
  if (path.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "the path is empty");
  }
  TC_ASSIGN_OR_RETURN(const std::string text,
                      os::ReadFile(path, planner::kMaxPlanBytes));
  const bool is_storage = planner::IsStoragePlan(text);
  if (!is_storage && text.find(planner::kPlanFormat) == std::string::npos) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: is no plan: `thermocline plan -o` writes them",
                Escape(path));
  }
  (is_storage ? flags.storage_plan_path : flags.plan_path) = path;
  return {};
}

Status StoreLayers(const std::string& text, DeviceFlags& flags) {
  if (text == "auto") {
    flags.rules.num_layers.reset();
  } else if (text == "all") {
    flags.rules.num_layers = kAllLayers;
  } else {
    TC_ASSIGN_OR_RETURN(const int64_t count, ParseInt(text, 0, kAllLayers));
    flags.rules.num_layers = static_cast<size_t>(count);
  }
  return {};
}

void AddPlacementFlags(CLI::App& app, DeviceFlags& flags) {
  AddParsed(
      app, "--ngl,--gpu-layers,--n-gpu-layers", "N",
      "The last N layers on the device, whole, with more than there are "
      "(or all) the head too, the rest on the host (default auto: what "
      "is worth most)",
      [&flags](const std::string& text) { return StoreLayers(text, flags); });
  AddParsed(app, "--n-cpu-moe,--ncmoe", "N",
            "The experts of the first N layers stay on the host",
            [&flags](const std::string& text) -> Status {
              TC_ASSIGN_OR_RETURN(const int64_t count,
                                  ParseInt(text, 0, kAllLayers));
              flags.rules.num_host_experts = static_cast<size_t>(count);
              return {};
            });
  app.add_flag_callback(
      "--cpu-moe,--cmoe",
      [&flags] { flags.rules.num_host_experts = kAllLayers; },
      "All experts stay on the host");
  AddParsed(app, "--ot,--override-tensor", "REGEX=WHERE,...",
            "Where tensors lie whose names match: host, device (also CPU, "
            "CUDA0); what lies together goes together, the first match counts",
            [&flags](const std::string& text) {
              return StoreTensorRules(text, flags);
            });
}

void AddPlanFlags(CLI::App& app, DeviceFlags& flags) {
  AddParsed(
      app, "--plan", "FILE",
      "What lies on the device, or in memory: a plan of `thermocline "
      "plan`",
      [&flags](const std::string& text) { return StorePlan(text, flags); });
  AddPath(app, "--counts", flags.counts_path, "PROFILE",
          "How often neurons fire, to plan by: a profile of the model, where "
          "its file has none or of another text");
}

// A plan has said already what these say.
Status CheckPlanAlone(const DeviceFlags& flags) {
  if (!flags.plan_path) return {};
  const bool has_rules = flags.rules.num_layers.has_value() ||
                         flags.rules.num_host_experts > 0 ||
                         !flags.rules.tensors.empty();
  if (has_rules) {
    return Fail(ErrorCode::kInvalidArgument,
                "--plan says what lies where: -ngl, -ot, --cpu-moe and "
                "--n-cpu-moe do too");
  }
  if (flags.counts_path) {
    return Fail(ErrorCode::kInvalidArgument,
                "--counts is to plan by, and --plan is a plan already");
  }
  return {};
}

}  // namespace

Status CheckDeviceFlags(const DeviceFlags& flags) {
  const std::string_view needing = NeedsDevice(flags);
  if (!needing.empty() && flags.name == "none") {
    return Fail(ErrorCode::kInvalidArgument,
                "{} is for a device, and --device none says that there is none",
                needing);
  }
  if (flags.vrams.size() > 1) {
    return Fail(ErrorCode::kInvalidArgument,
                "--vram: one budget at a time; `bench` compares several");
  }
  TC_RETURN_IF_ERROR(CheckPlanAlone(flags));
  if (flags.machine && flags.name != "sim") {
    return Fail(ErrorCode::kInvalidArgument,
                "--machine is what --device sim simulates");
  }
  if (!flags.machine && flags.name == "sim") {
    return Fail(ErrorCode::kInvalidArgument,
                "--device sim: say with --machine which machine's rates it has "
                "(machines/*.json)");
  }
  const std::optional<int> cuda = CudaIndex(flags.name);
  if (cuda && flags.cuda_of_tensors && *cuda != *flags.cuda_of_tensors) {
    return Fail(ErrorCode::kInvalidArgument,
                "-ot puts tensors on CUDA{}, and the device is cuda{}: there "
                "is one at a time",
                *flags.cuda_of_tensors, *cuda);
  }
  return {};
}

void AddDeviceFlags(CLI::App& app, DeviceFlags& flags) {
  AddParsed(app, "--device", "NAME",
            "Computes what of the model fits its memory, of generated tokens: "
            "cuda, cuda0 and on (`thermocline devices` lists them), sim (a "
            "simulated one, see --machine), none (default: cuda where another "
            "flag wants a device, else none)",
            [&flags](const std::string& text) -> Status {
              if (text != "none" && text != "sim" && !CudaIndex(text)) {
                return NotOneOf(text, "none, sim, cuda, cuda0, cuda1");
              }
              flags.name = text;
              return {};
            });
  AddParsed(app, "--vram", "SIZE,...",
            "Memory of the device for all of it (8GiB); planned to the byte, "
            "never exceeded; `bench` tries several (default: what is free less "
            "512 MiB)",
            [&flags](const std::string& text) -> Status {
              TC_ASSIGN_OR_RETURN(flags.vrams, ParseSizes(text));
              return {};
            });
  AddPath(app, "--machine", flags.machine, "FILE",
          "Rates of the machine that --device sim simulates");
  AddPlacementFlags(app, flags);
  AddPlanFlags(app, flags);
  AddParsed(app, "--on-device-loss", "MODE",
            "When the device is lost: fail (default), host (goes on alone)",
            [&flags](const std::string& text) -> Status {
              if (text != "fail" && text != "host") {
                return NotOneOf(text, "fail, host");
              }
              flags.on_loss = text == "host" ? engine::DeviceLoss::kHost
                                             : engine::DeviceLoss::kFail;
              return {};
            });
}

DeviceFlags OfAnyBudget(DeviceFlags flags) {
  // One stays: it may be all that wants a device.
  if (flags.vrams.size() > 1) flags.vrams.resize(1);
  return flags;
}

bool IsCudaName(std::string_view name) { return CudaIndex(name).has_value(); }

bool WantsDevice(const DeviceFlags& flags) {
  return flags.name.empty() ? !NeedsDevice(flags).empty()
                            : flags.name != "none";
}

Result<std::shared_ptr<device::Device>> OpenDevice(const DeviceFlags& flags,
                                                   Timeline* timeline) {
  TC_RETURN_IF_ERROR(CheckDeviceFlags(flags));
  if (!WantsDevice(flags)) return std::shared_ptr<device::Device>();
  if (flags.name == "sim") {
    TC_ASSIGN_OR_RETURN(const device::Machine machine,
                        device::ReadMachine(*flags.machine));
    return std::shared_ptr<device::Device>(
        device::MakeSim(machine, {.timeline = timeline}));
  }
  const bool is_named = !flags.name.empty();
  auto device = device::OpenCuda(
      is_named ? *CudaIndex(flags.name) : flags.cuda_of_tensors.value_or(0),
      timeline);
  if (device) return std::shared_ptr<device::Device>(*std::move(device));
  if (is_named) return tl::unexpected(device.error());
  return Annotate(NeedsDevice(flags), device.error());
}

}  // namespace thermocline::cli
