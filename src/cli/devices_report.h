// What `thermocline devices` says: processors, their memory and its speed.
#ifndef THERMOCLINE_CLI_DEVICES_REPORT_H_
#define THERMOCLINE_CLI_DEVICES_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/device_flags.h"
#include "device/device.h"
#include "probe/device_rates.h"

namespace thermocline::cli {

struct HostReads {
  int num_threads = 0;      // 0: of a simulated machine
  uint64_t read_bytes = 0;  // likewise
  double gb_per_s = 0.0;    // the best round
  double gb_per_s_median = 0.0;
};

// Reads of all threads, from more than the caches hold. Takes about a second.
// Errors of probe::ReadProbe.
Result<HostReads> MeasureHost();

// Measures a device with no more of its memory than the budget has; with a
// small one in what is its cache.
probe::DeviceRatesOptions RatesWithin(const DeviceFlags& flags);

struct DeviceEntry {
  device::DeviceInfo info;
  std::optional<probe::DeviceRates> rates;
  std::string problem;  // why it was not measured; empty: nothing, or not asked
};

struct DevicesReport {
  uint64_t ram_bytes = 0;
  std::optional<HostReads> host;
  std::vector<DeviceEntry> devices;
  std::string why_no_cuda;  // empty: there is, or it was not asked for
};

std::string FormatDevices(const DevicesReport& report);
std::string FormatDevicesJson(const DevicesReport& report);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_DEVICES_REPORT_H_
