#include "cli/device_flags.h"

#include <charconv>
#include <string_view>
#include <utility>

#include "cli/flags.h"
#include "cli/parse_text.h"
#include "device/cuda/find_cuda.h"
#include "device/sim/machine.h"
#include "device/sim/sim_device.h"

namespace thermocline::cli {
namespace {

constexpr std::string_view kCuda = "cuda";

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

Status CheckTogether(const DeviceFlags& flags) {
  if (flags.vram && flags.name == "none") {
    return Fail(ErrorCode::kInvalidArgument,
                "--vram is for a device: name one with --device");
  }
  if (flags.machine && flags.name != "sim") {
    return Fail(ErrorCode::kInvalidArgument,
                "--machine is what --device sim simulates, not {}", flags.name);
  }
  if (!flags.machine && flags.name == "sim") {
    return Fail(ErrorCode::kInvalidArgument,
                "--device sim: say with --machine which machine's rates it has "
                "(machines/*.json)");
  }
  return {};
}

}  // namespace

void AddDeviceFlags(CLI::App& app, DeviceFlags& flags) {
  AddParsed(app, "--device", "NAME",
            "Computes the neurons that fit its memory, of generated tokens: "
            "cuda, cuda0 and on (`thermocline devices` lists them), sim (a "
            "simulated one, see --machine), none (default)",
            [&flags](const std::string& text) -> Status {
              if (text != "none" && text != "sim" && !CudaIndex(text)) {
                return NotOneOf(text, "none, sim, cuda, cuda0, cuda1");
              }
              flags.name = text;
              return {};
            });
  AddParsed(app, "--vram", "SIZE",
            "Memory of the device for all of it (8GiB); planned to the byte, "
            "never exceeded (default: what is free less 512 MiB)",
            [&flags](const std::string& text) -> Status {
              TC_ASSIGN_OR_RETURN(flags.vram, ParseSize(text));
              return {};
            });
  AddPath(app, "--machine", flags.machine, "FILE",
          "Rates of the machine that --device sim simulates");
}

Result<std::shared_ptr<device::Device>> OpenDevice(const DeviceFlags& flags) {
  TC_RETURN_IF_ERROR(CheckTogether(flags));
  if (flags.name == "none") return std::shared_ptr<device::Device>();
  if (flags.name == "sim") {
    TC_ASSIGN_OR_RETURN(const device::Machine machine,
                        device::ReadMachine(*flags.machine));
    return std::shared_ptr<device::Device>(device::MakeSim(machine, {}));
  }
  TC_ASSIGN_OR_RETURN(std::unique_ptr<device::Device> device,
                      device::OpenCuda(*CudaIndex(flags.name)));
  return std::shared_ptr<device::Device>(std::move(device));
}

}  // namespace thermocline::cli
