// A device that computes with the host's kernels and keeps virtual time.
#ifndef THERMOCLINE_DEVICE_SIM_SIM_DEVICE_H_
#define THERMOCLINE_DEVICE_SIM_SIM_DEVICE_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "base/timeline.h"
#include "device/device.h"
#include "device/sim/machine.h"
#include "device/sim/op_check.h"
#include "device/sim/virtual_time.h"
#include "kernels/kernels.h"

namespace thermocline::device {

struct SimOptions {
  // What computes; null: the best of this CPU's.
  const kernels::KernelTable* kernels = nullptr;

  // Nothing is computed, copied or filled, and buffers cost no memory until the
  // host writes them; times are those of computing.
  bool time_only = false;
  // Without data, what of it decides an operation's cost, asked each time that
  // one is done; none: LargestCounts.
  std::function<SimCounts(const kernels::DeviceOp&)> counts;
  // Told of each operation that is computed. Neither calls the device.
  std::function<void(const kernels::DeviceOp&, const SimCounts&)> observe;

  // Work is done as late as it may be: when the host waits or asks for it, of
  // each stream as little as that needs. Where a Synchronize or a Wait is
  // missing, what is read is old, or poison. Faults of work show then. Times
  // are no longer those of the order of calls.
  bool is_late = false;

  // Told of all that the device does, in virtual time, which becomes the
  // timeline's clock as long as the device lives. Outlives it. Null: nobody.
  Timeline* timeline = nullptr;

  // Faults. Calls of the Device are counted from 1: all that can fail.
  uint64_t fail_call = 0;  // fails with `error` and does nothing; 0: none
  ErrorCode error = ErrorCode::kResourceExhausted;
  uint64_t lose_at = 0;  // from this call on the device is lost; 0: never
};

// With one fault drawn from a seed among the first num_calls > 0 calls: a call
// that fails, with one of the errors that devices give, or the device lost.
SimOptions WithFault(SimOptions options, uint64_t seed, uint64_t num_calls);

// Operations are computed when they are enqueued, so results are there before
// virtual time says so (but for is_late). Times follow the calls' order: the
// same calls give the same times.
//   operation  launch latency (in a graph: graph_op_latency), then the bytes
//              that it moves in the device's memory, and beside them those of
//              pinned memory over the link, each at its rate
//   copy       over the link: copy_latency + bytes / rate, less where the bus
//              is not free; within the device as an operation
//   copy of memory that is not pinned  the host first copies it itself, or
//              afterwards, and waits for that
// Enqueuing takes the host no time. An event that was never recorded is
// reached. Asking whether one is reached costs the host sync_latency, so that
// polling ends.
// Errors name the device ("sim0: ..."). kCorrupt also where an operation's
// memory is not that of buffers.
class SimDevice : public Device {
 public:
  // What the host does meanwhile: reads so many bytes with all its threads, or
  // takes so long. Moves its clock.
  virtual void HostWork(uint64_t num_bytes) = 0;
  virtual void HostSeconds(double seconds) = 0;

  virtual double now() const = 0;  // the host's clock, seconds
  virtual SimAccounts accounts() const = 0;
  virtual const Machine& machine() const = 0;
  virtual uint64_t num_calls() const = 0;
};

// Null: another kind of device.
SimDevice* AsSim(Device* device);

// Errors of the machine's figures are ReadMachine's.
std::unique_ptr<SimDevice> MakeSim(const Machine& machine,
                                   const SimOptions& options);

}  // namespace thermocline::device

#endif  // THERMOCLINE_DEVICE_SIM_SIM_DEVICE_H_
