// Does what a stream of the simulated device has: the data, and the time.
#ifndef THERMOCLINE_DEVICE_SIM_SIM_WORKER_H_
#define THERMOCLINE_DEVICE_SIM_SIM_WORKER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "base/status.h"
#include "device/sim/machine.h"
#include "device/sim/sim_device.h"
#include "device/sim/sim_layout.h"
#include "device/sim/sim_memory.h"
#include "device/sim/sim_ops.h"
#include "device/sim/virtual_time.h"

namespace thermocline::device {

struct SimCopy {
  void* to;
  const void* from;
  size_t num_bytes;
};
struct SimFill {
  void* to;
  uint8_t value;
  size_t num_bytes;
};
using SimWork = std::variant<SimCopy, SimFill, kernels::DeviceOp>;

// Threads  one at a time.
class SimWorker {
 public:
  SimWorker(const Machine& machine, const SimOptions& options);

  const SimLayout& layout() const { return layout_; }
  SimMemory& memory() { return memory_; }
  const SimMemory& memory() const { return memory_; }
  VirtualTime& time() { return time_; }
  const VirtualTime& time() const { return time_; }

  // Work that begins at `from` at the earliest, operations after a latency;
  // when it ends. kCorrupt: what CheckOp, CheckRanges or SimOps find, bytes
  // past a buffer, null.
  Result<double> Do(const SimWork& work, double from, double latency);

 private:
  Result<double> Do(const SimCopy& copy, double from, double latency);
  Result<double> Do(const SimFill& fill, double from, double latency);
  Result<double> Do(const kernels::DeviceOp& op, double from, double latency);

  // nullopt: of the host, not pinned.
  using Memory = std::optional<MemoryKind>;
  Result<Memory> MemoryOf(const char* call, const void* data,
                          size_t num_bytes) const;
  double TimeOfCopy(Memory to, Memory from, size_t num_bytes, double begin,
                    double latency);

  SimOptions options_;
  SimLayout layout_;
  SimMemory memory_;
  SimOps ops_;
  VirtualTime time_;
};

}  // namespace thermocline::device

#endif  // THERMOCLINE_DEVICE_SIM_SIM_WORKER_H_
