// A machine of stated rates, from a file: what the simulated device's virtual
// time is computed from. Format: docs/formats/machine.md.
#ifndef THERMOCLINE_DEVICE_SIM_MACHINE_H_
#define THERMOCLINE_DEVICE_SIM_MACHINE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace thermocline::device {

// Bytes, bytes per second and seconds; nothing is measured. A file has all of
// it: the defaults are no machine.
struct Machine {
  std::string name;  // of the device
  uint64_t memory_bytes = 0;
  double device_rate = 0.0;       // of the device's memory
  double launch_latency = 0.0;    // of an operation that is enqueued alone, and
                                  // of a graph as a whole
  double graph_op_latency = 0.0;  // of each operation in a graph
  double sync_latency = 0.0;      // of a call that waits or asks; > 0

  // A copy of n bytes takes copy_latency + n / rate, one after the other in
  // each direction.
  double copy_latency = 0.0;
  double up_rate = 0.0;  // host to device
  double down_rate = 0.0;

  double bus_rate = 0.0;   // of the host's DRAM: its own reads and all copies
  double pool_rate = 0.0;  // of the host's threads together, alone on the bus
};

inline constexpr uint64_t kMaxMachineBytes = 64 << 10;

// `path` is named in errors. kCorrupt: not JSON, a key twice, more than
// kMaxMachineBytes. kInvalidArgument: a key is missing, unknown, or not what it
// has to be; both named.
Result<Machine> ParseMachine(std::string_view text, const std::string& path);

// As ParseMachine; kNotFound, kIo as os::ReadFile.
Result<Machine> ReadMachine(const std::string& path);

}  // namespace thermocline::device

#endif  // THERMOCLINE_DEVICE_SIM_MACHINE_H_
