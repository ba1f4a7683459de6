// Aligned memory, and how much of it the machine has.
#ifndef THERMOCLINE_OS_MEMORY_H_
#define THERMOCLINE_OS_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "base/status.h"

namespace thermocline::os {

inline constexpr size_t kHugePageBytes = size_t{2} << 20;

// Zeroed anonymous memory, 64-byte aligned; from 1 MiB on aligned to huge
// pages, which are asked for. Pages cost memory once they are touched.
// Move-only; frees when destroyed.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // kResourceExhausted when the system refuses; the message has the size.
  static Result<AlignedBuffer> Allocate(size_t num_bytes);
  // The same, from a whole page on, for what will hardly be touched: in small
  // pages, and where the system is not set to refuse it, more than it has.
  static Result<AlignedBuffer> Reserve(size_t num_bytes);
  AlignedBuffer(AlignedBuffer&& other) noexcept { *this = std::move(other); }
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;
  ~AlignedBuffer();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  // The first `count` elements as T. Requires that they fit. (CHECKed)
  template <typename T>
  std::span<T> as(size_t count) const {
    CheckFits(count, sizeof(T));
    return {reinterpret_cast<T*>(data_), count};
  }

 private:
  void CheckFits(size_t count, size_t elem_bytes) const;
  std::byte* data_ = nullptr;
  size_t size_ = 0;          // asked for
  size_t mapped_bytes_ = 0;  // of the mapping, 0 if from the heap
};

struct MemoryInfo {
  uint64_t total_bytes;      // RAM, or the cgroup's limit if that is less
  uint64_t available_bytes;  // what could be had without swapping
};
// Limits of cgroups v1 and v2 count, those of the enclosing groups too. The
// roots are where procfs and sysfs are mounted.
MemoryInfo ReadMemoryInfo(const std::string& proc_root = "/proc",
                          const std::string& sys_root = "/sys");

struct ProcessMemory {
  uint64_t anonymous_bytes;  // RssAnon now
  uint64_t mapped_bytes;     // RssFile now: of files, can be dropped
  uint64_t locked_bytes;     // VmLck now: of either, cannot
};
ProcessMemory ReadProcessMemory();

// Which share of the memory that this process has touched lies in huge pages;
// zeros where the kernel does not tell. Walks the page tables: milliseconds per
// GiB in small pages.
struct HugePageShares {
  double anonymous;
  double mapped;  // of files
};
HugePageShares ReadHugePageShares(const std::string& proc_root = "/proc");

}  // namespace thermocline::os

#endif  // THERMOCLINE_OS_MEMORY_H_
