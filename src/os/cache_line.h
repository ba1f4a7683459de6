// Requests for cache lines that are needed soon.
#ifndef THERMOCLINE_OS_CACHE_LINE_H_
#define THERMOCLINE_OS_CACHE_LINE_H_

#include <cstddef>

namespace thermocline::os {

inline constexpr size_t kCacheLine = 64;

// Prefetches the line of an address, to be read from the second level on.
// Any address will do, also one that nothing lies at.
inline void PrefetchForRead(const void* address) {
  __builtin_prefetch(address, 0, 2);
}

// The same, to be written: others' copies go meanwhile. The compiler's own
// request to write is one to read on the oldest CPUs of x86-64, for which files
// are compiled, and leaves others their copies.
inline void PrefetchForWrite(const void* address) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1);
#endif
}

inline void PrefetchForRead(const void* begin, size_t num_bytes) {
  for (size_t i = 0; i < num_bytes; i += kCacheLine) {
    PrefetchForRead(static_cast<const char*>(begin) + i);
  }
}

inline void PrefetchForWrite(const void* begin, size_t num_bytes) {
  for (size_t i = 0; i < num_bytes; i += kCacheLine) {
    PrefetchForWrite(static_cast<const char*>(begin) + i);
  }
}

}  // namespace thermocline::os

#endif  // THERMOCLINE_OS_CACHE_LINE_H_
