// Whether an operation's arguments are what device_ops.h says, what it touches,
// and how many bytes of it.
#ifndef THERMOCLINE_DEVICE_SIM_OP_CHECK_H_
#define THERMOCLINE_DEVICE_SIM_OP_CHECK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.h"
#include "device/device.h"
#include "device/sim/sim_memory.h"
#include "device/sim/virtual_time.h"
#include "kernels/device_ops.h"

namespace thermocline::device {

// kCorrupt, naming the operation and what is wrong with it. Of its pointers
// nothing is looked at but for null where one decides (CheckRanges does).
Status CheckOp(const kernels::DeviceOp& op, const RowLayout& layout);

// What the data of an operation decides of its cost.
struct SimCounts {
  uint64_t listed = 0;     // SparseFfnArgs: neurons in some row's list
  uint64_t opened = 0;     // of those, whose further rows are read
  uint64_t positions = 0;  // DecodeAttentionArgs: that all rows see together

  friend bool operator==(const SimCounts&, const SimCounts&) = default;
};

// The most that the arguments allow.
SimCounts LargestCounts(const kernels::DeviceOp& op);

struct OpRange {
  const char* name;  // of the argument
  const void* data;
  size_t num_bytes;  // that may be touched
  uint64_t reads;    // bytes that are moved
  uint64_t writes;
};

// Those that are there. Bytes of rows count as the device keeps them; scratch
// counts as nothing: it stays in the device's cache.
class OpRanges {
 public:
  void Add(const char* name, const void* data, size_t num_bytes, uint64_t reads,
           uint64_t writes);
  std::span<const OpRange> all() const { return {ranges_.data(), count_}; }

 private:
  std::array<OpRange, 14> ranges_;
  size_t count_ = 0;
};

// Of KV pages the range is the first page alone: how many there are is known to
// the page table only. Requires what CheckOp requires.
OpRanges RangesOf(const kernels::DeviceOp& op, const SimCounts& counts);

const char* NameOf(const kernels::DeviceOp& op);            // "GemvArgs"
std::string_view ShortNameOf(const kernels::DeviceOp& op);  // "Gemv"

// kCorrupt, naming the argument: null, or not all of it in one buffer, or not
// aligned to 16 bytes.
Status CheckRanges(const kernels::DeviceOp& op, const OpRanges& ranges,
                   const SimMemory& memory);

// Of ranges that were checked.
SimTraffic TrafficOf(const OpRanges& ranges, const SimMemory& memory);

}  // namespace thermocline::device

#endif  // THERMOCLINE_DEVICE_SIM_OP_CHECK_H_
