#include "device/sim/sim_worker.h"

#include <cstring>

#include "device/sim/op_check.h"

namespace thermocline::device {
namespace {

const kernels::KernelTable& TableOf(const SimOptions& options) {
  return options.kernels != nullptr ? *options.kernels
                                    : kernels::KernelsFor(kernels::BestIsa());
}

}  // namespace

SimWorker::SimWorker(const Machine& machine, const SimOptions& options)
    : options_(options),
      layout_(TableOf(options)),
      memory_(machine.memory_bytes, !options.time_only),
      ops_(TableOf(options), memory_),
      time_(machine) {}

Result<double> SimWorker::Do(const SimWork& work, double from, double latency) {
  return std::visit([&](const auto& what) { return Do(what, from, latency); },
                    work);
}

Result<double> SimWorker::Do(const kernels::DeviceOp& op, double from,
                             double latency) {
  TC_RETURN_IF_ERROR(CheckOp(op, layout_));
  TC_RETURN_IF_ERROR(CheckRanges(op, RangesOf(op, {}), memory_));
  SimCounts counts;
  if (!options_.time_only) {
    TC_ASSIGN_OR_RETURN(counts, ops_.Compute(op));
    if (options_.observe) options_.observe(op, counts);
  } else {
    counts = options_.counts ? options_.counts(op) : LargestCounts(op);
  }
  return time_.Operate(from, latency, TrafficOf(RangesOf(op, counts), memory_));
}

Result<double> SimWorker::Do(const SimFill& fill, double from, double latency) {
  TC_ASSIGN_OR_RETURN(const Memory to,
                      MemoryOf("Fill", fill.to, fill.num_bytes));
  if (!to.has_value()) {
    return Fail(ErrorCode::kCorrupt,
                "Fill: the memory is in no buffer of the device");
  }
  if (!options_.time_only) std::memset(fill.to, fill.value, fill.num_bytes);
  SimTraffic traffic;
  (*to == MemoryKind::kDevice ? traffic.device_bytes : traffic.down_bytes) =
      fill.num_bytes;
  return time_.Operate(from, latency, traffic);
}

Result<double> SimWorker::Do(const SimCopy& copy, double from, double latency) {
  TC_ASSIGN_OR_RETURN(const Memory to,
                      MemoryOf("Copy", copy.to, copy.num_bytes));
  TC_ASSIGN_OR_RETURN(const Memory of,
                      MemoryOf("Copy", copy.from, copy.num_bytes));
  if (!options_.time_only && copy.num_bytes > 0) {
    std::memmove(copy.to, copy.from, copy.num_bytes);
  }
  return TimeOfCopy(to, of, copy.num_bytes, from, latency);
}

double SimWorker::TimeOfCopy(Memory to, Memory from, size_t num_bytes,
                             double begin, double latency) {
  const bool to_device = to == MemoryKind::kDevice;
  const bool from_device = from == MemoryKind::kDevice;
  if (to_device && from_device) {
    return time_.Operate(begin, latency, {.device_bytes = 2 * num_bytes});
  }
  // Memory that is not pinned goes through some that is.
  if (to_device) {
    if (!from.has_value()) time_.HostWork(2 * num_bytes);
    return time_.CopyUp(begin, num_bytes);
  }
  if (!from_device) return time_.CopyOnHost(begin, num_bytes);
  const double end = time_.CopyDown(begin, num_bytes);
  if (to.has_value()) return end;
  time_.WaitUntil(end);
  time_.HostWork(2 * num_bytes);
  return time_.now();
}

Result<SimWorker::Memory> SimWorker::MemoryOf(const char* call,
                                              const void* data,
                                              size_t num_bytes) const {
  if (data == nullptr && num_bytes > 0) {
    return Fail(ErrorCode::kCorrupt, "{}: {} bytes at null", call, num_bytes);
  }
  const auto place = memory_.Find(data);
  const bool is_cut = place.has_value() ? place->num_bytes < num_bytes
                                        : memory_.MeetsBuffer(data, num_bytes);
  if (is_cut) {
    return Fail(ErrorCode::kCorrupt, "{}: {} bytes go past their buffer", call,
                num_bytes);
  }
  if (!place.has_value()) return Memory{};
  return Memory{place->kind};
}

}  // namespace thermocline::device
