// `thermocline devices`: what there is to compute on.
#include <fmt/format.h>

#include <string>

#include "base/units.h"
#include "cli/commands.h"
#include "cli/standard_io.h"
#include "device/cuda/find_cuda.h"
#include "os/memory.h"

namespace thermocline::cli {
namespace {

std::string FormatDevice(const device::DeviceInfo& info) {
  return fmt::format("{:6} {}, compute capability {}.{}, {} of {} free\n",
                     info.id, info.name, info.major, info.minor,
                     FormatBytes(info.free_bytes),
                     FormatBytes(info.total_bytes));
}

Status ListDevices() {
  const device::Found found = device::FindCudaDevices();
  std::string text = fmt::format("host   {} of RAM\n",
                                 FormatBytes(os::ReadMemoryInfo().total_bytes));
  for (const device::DeviceInfo& info : found.devices) {
    text += FormatDevice(info);
  }
  if (!found.why_none.empty()) {
    text += fmt::format("cuda   none: {}\n", found.why_none);
  }
  return WriteStdout(text);
}

}  // namespace

void AddDevicesCommand(CLI::App& parent, Action& action) {
  CLI::App* app = parent.add_subcommand(
      "devices", "Lists the processors that models can run on");
  app->callback([&action] { action = ListDevices; });
}

}  // namespace thermocline::cli
