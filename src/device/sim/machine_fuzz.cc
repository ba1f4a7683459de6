// Any bytes as a machine: refused, or its figures are in their ranges.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "device/sim/machine.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thermocline::device;
  const auto machine = ParseMachine(
      std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
  if (!machine.has_value()) return 0;
  TC_CHECK(!machine->name.empty() && machine->memory_bytes > 0);
  for (const double rate :
       {machine->device_rate, machine->up_rate, machine->down_rate,
        machine->bus_rate, machine->pool_rate, machine->sync_latency}) {
    TC_CHECK(std::isfinite(rate) && rate > 0.0);
  }
  for (const double seconds :
       {machine->launch_latency, machine->graph_op_latency,
        machine->copy_latency}) {
    TC_CHECK(seconds >= 0.0 && seconds <= 1.0);
  }
  return 0;
}
