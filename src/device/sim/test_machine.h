// A machine whose figures are powers of two: times are exact.
#ifndef THERMOCLINE_DEVICE_SIM_TEST_MACHINE_H_
#define THERMOCLINE_DEVICE_SIM_TEST_MACHINE_H_

#include <cstdint>

#include "device/sim/machine.h"

namespace thermocline::device {

inline constexpr double kLaunch = 0x1p-10, kGraphOp = 0x1p-12, kSync = 0x1p-9,
                        kCopy = 0x1p-8;

inline Machine TestMachine() {
  return {.name = "a test's card",
          .memory_bytes = uint64_t{1} << 24,
          .device_rate = 0x1p20,
          .launch_latency = kLaunch,
          .graph_op_latency = kGraphOp,
          .sync_latency = kSync,
          .copy_latency = kCopy,
          .up_rate = 0x1p16,
          .down_rate = 0x1p15,
          .bus_rate = 0x1p17,
          .pool_rate = 0x1p17};
}

}  // namespace thermocline::device

#endif  // THERMOCLINE_DEVICE_SIM_TEST_MACHINE_H_
