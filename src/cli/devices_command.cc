// `thermocline devices`: what there is to compute on, and how fast it is.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/device_flags.h"
#include "cli/devices_report.h"
#include "cli/flags.h"
#include "cli/parse_text.h"
#include "cli/signals.h"
#include "cli/standard_io.h"
#include "device/cuda/find_cuda.h"
#include "device/sim/machine.h"
#include "device/sim/sim_device.h"
#include "os/memory.h"
#include "probe/device_rates.h"
#include "probe/memory.h"

namespace thermocline::cli {
namespace {

constexpr int kHostRounds = 10;
constexpr uint64_t kSimulatedReadBytes = uint64_t{1} << 30;

struct DevicesFlags {
  std::optional<std::string> device;
  std::optional<std::string> machine;
  bool is_quick = false;
  bool json = false;
};

Status CheckDeviceName(const std::string& name) {
  const bool is_cuda = name.starts_with("cuda") && name.size() < 8 &&
                       std::all_of(
                           name.begin() + 4, name.end(),
                           [](char c) { return c >= '0' && c <= '9'; });
  if (is_cuda || name == "sim") return {};
  return NotOneOf(name, "sim, cuda, cuda0, cuda1");
}

void MeasureInto(device::Device& device, const probe::DeviceRatesOptions& how,
                 DeviceEntry& entry, Status& status) {
  const auto rates = probe::MeasureDevice(device, how);
  if (rates.has_value()) {
    entry.rates = *rates;
    return;
  }
  entry.problem = rates.error().message;
  if (status.has_value()) status = tl::unexpected(rates.error());
}

// In virtual time; nothing is computed.
Result<DevicesReport> ReportOfSimulated(const DevicesFlags& flags,
                                        Status& status) {
  if (!flags.machine.has_value()) {
    return Fail(ErrorCode::kInvalidArgument,
                "--device sim: say with --machine which machine's rates it has "
                "(machines/*.json)");
  }
  TC_ASSIGN_OR_RETURN(const device::Machine machine,
                      device::ReadMachine(*flags.machine));
  const auto sim = device::MakeSim(machine, {.time_only = true});
  DevicesReport report;
  TC_ASSIGN_OR_RETURN(const device::DeviceInfo info, sim->Info());
  report.devices.push_back({.info = info});
  if (flags.is_quick) return report;
  const double begin = sim->now();
  sim->HostWork(kSimulatedReadBytes);
  const double rate =
      static_cast<double>(kSimulatedReadBytes) / (sim->now() - begin) / 1e9;
  report.host = HostReads{.gb_per_s = rate, .gb_per_s_median = rate};
  MeasureInto(*sim, {.now = [&] { return sim->now(); }}, report.devices.front(),
              status);
  return report;
}

// Those that there are, or the one that is named.
Result<DevicesReport> ReportOfFound(const DevicesFlags& flags, Status& status) {
  DevicesReport report;
  device::Found found = device::FindCudaDevices();
  if (flags.device.has_value()) {
    const std::string id = *flags.device == "cuda" ? "cuda0" : *flags.device;
    std::erase_if(found.devices,
                  [&](const auto& info) { return info.id != id; });
    if (found.devices.empty()) {
      // Says why.
      TC_RETURN_IF_ERROR(OpenDevice({.name = id}));
    }
  }
  report.why_no_cuda = found.why_none;
  if (!flags.is_quick) {
    TC_ASSIGN_OR_RETURN(report.host, MeasureHost());
  }
  for (const device::DeviceInfo& info : found.devices) {
    DeviceEntry& entry = report.devices.emplace_back(DeviceEntry{.info = info});
    if (flags.is_quick) continue;
    TC_ASSIGN_OR_RETURN(const auto device, OpenDevice({.name = info.id}));
    MeasureInto(*device, {}, entry, status);
  }
  return report;
}

// What could not be measured is told with the rest, and is an error.
Status ListDevices(const DevicesFlags& flags) {
  if (flags.machine.has_value() && flags.device != "sim") {
    return Fail(ErrorCode::kInvalidArgument,
                "--machine is what --device sim simulates");
  }
  ExitOnInterrupt exit_on_interrupt;
  Status status;
  TC_ASSIGN_OR_RETURN(DevicesReport report,
                      flags.device == "sim" ? ReportOfSimulated(flags, status)
                                            : ReportOfFound(flags, status));
  report.ram_bytes = os::ReadMemoryInfo().total_bytes;
  TC_RETURN_IF_ERROR(WriteStdout(flags.json ? FormatDevicesJson(report)
                                            : FormatDevices(report)));
  return status;
}

}  // namespace

Result<HostReads> MeasureHost() {
  const probe::ProbeSize size = probe::ProbeSizeFor(
      probe::LastLevelCacheBytes(), os::ReadMemoryInfo().available_bytes, 0);
  TC_ASSIGN_OR_RETURN(probe::ReadProbe reads,
                      probe::ReadProbe::Create(0, size.num_bytes));
  std::vector<double> rates;
  for (int i = 0; i < kHostRounds; ++i) {
    TC_ASSIGN_OR_RETURN(const double rate, reads.Measure(1));
    rates.push_back(rate);
  }
  std::ranges::sort(rates);
  return HostReads{
      .num_threads = reads.num_threads(),
      .read_bytes = reads.num_bytes(),
      .gb_per_s = rates.back(),
      .gb_per_s_median =
          (rates[kHostRounds / 2 - 1] + rates[kHostRounds / 2]) / 2};
}

void AddDevicesCommand(CLI::App& parent, Action& action) {
  auto flags = std::make_shared<DevicesFlags>();
  CLI::App* app = parent.add_subcommand(
      "devices", "Lists and measures the processors that models can run on");
  AddParsed(*app, "--device", "NAME",
            "This one alone: cuda, cuda0 and on, sim (see --machine)",
            [flags = flags.get()](const std::string& text) -> Status {
              TC_RETURN_IF_ERROR(CheckDeviceName(text));
              flags->device = text;
              return {};
            });
  AddPath(*app, "--machine", flags->machine, "FILE",
          "Rates of the machine that --device sim simulates");
  app->add_flag("--no-measure", flags->is_quick, "List them, and no more");
  app->add_flag("--json", flags->json, "One JSON object instead of text");
  app->footer(
      "Measures memory, the link by sizes of copies, records gathered from\n"
      "scattered places, and a round trip: 2 to 3 seconds a device, while\n"
      "nothing else should use it.\n\n"
      "Examples:\n"
      "  thermocline devices\n"
      "  thermocline devices --no-measure\n"
      "  thermocline devices --device cuda1 --json\n"
      "  thermocline devices --device sim --machine "
      "machines/rtx4090-ddr5.json");
  app->callback(
      [flags, &action] { action = [flags] { return ListDevices(*flags); }; });
}

}  // namespace thermocline::cli
