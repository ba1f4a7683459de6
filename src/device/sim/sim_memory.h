// The buffers of a simulated device: the host's memory, counted.
#ifndef THERMOCLINE_DEVICE_SIM_SIM_MEMORY_H_
#define THERMOCLINE_DEVICE_SIM_SIM_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>

#include "base/status.h"
#include "device/device.h"

namespace thermocline::device {

// Threads  one at a time.
class SimMemory {
 public:
  // Every byte of what is allocated: as floats, in F16 and as a scale of blocks
  // NaN, as an index far out of range.
  static constexpr uint8_t kPoison = 0xff;

  // Without `holds_data` buffers are addresses that cost no memory until they
  // are written, and are zero.
  SimMemory(uint64_t device_bytes, bool holds_data)
      : device_bytes_(device_bytes), holds_data_(holds_data) {}
  ~SimMemory();
  SimMemory(const SimMemory&) = delete;
  SimMemory& operator=(const SimMemory&) = delete;

  // At a multiple of 256 bytes; of 0 bytes: null. kResourceExhausted: beyond
  // the device's memory, or the host has none.
  Result<std::byte*> Allocate(size_t num_bytes, MemoryKind kind,
                              std::string_view what);
  void Free(MemoryKind kind, std::byte* data, size_t num_bytes);

  uint64_t device_bytes() const { return device_bytes_; }
  uint64_t allocated_bytes(MemoryKind kind) const {
    return of(kind).allocated_bytes;
  }
  uint64_t peak_bytes(MemoryKind kind) const { return of(kind).peak_bytes; }

  struct Place {
    MemoryKind kind;
    size_t num_bytes;  // from the address to the buffer's end
  };
  // nullopt: in no buffer.
  std::optional<Place> Find(const void* data) const;
  // Whether some buffer begins in the range: of addresses outside of buffers.
  bool MeetsBuffer(const void* data, size_t num_bytes) const;

 private:
  struct Sums {
    uint64_t allocated_bytes = 0;
    uint64_t peak_bytes = 0;
  };
  struct Block {
    size_t num_bytes;
    MemoryKind kind;
  };
  const Sums& of(MemoryKind kind) const {
    return sums_[static_cast<size_t>(kind)];
  }

  uint64_t device_bytes_;
  bool holds_data_;
  Sums sums_[2];
  std::map<uintptr_t, Block> blocks_;  // by address
};

}  // namespace thermocline::device

#endif  // THERMOCLINE_DEVICE_SIM_SIM_MEMORY_H_
