// How fast this machine reads memory: the roof that decoding runs under.
#ifndef THERMOCLINE_PROBE_MEMORY_H_
#define THERMOCLINE_PROBE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace thermocline::probe {

struct ReadRate {
  double gb_per_s_best;  // 1 GB = 1e9 bytes
  double gb_per_s_median;
};

// Sums `num_bytes` of anonymous memory sequentially with `num_threads` threads
// (0: physical cores), each worker its own share, num_rounds times after one
// warm-up. Verifies every sum. kInvalidArgument: fewer than one round, no
// bytes, or a thread count that a pool refuses. kResourceExhausted: no memory.
// Cost: (num_rounds + 2) passes over the memory, which is freed at the end.
Result<ReadRate> MeasureSequentialRead(int num_threads, size_t num_bytes,
                                       int num_rounds);

// Bytes of the last-level cache, all instances of the machine together; 0 if
// unknown. What fits in it shows no roof.
uint64_t LastLevelCacheBytes(const std::string& sys_root = "/sys");

}  // namespace thermocline::probe

#endif  // THERMOCLINE_PROBE_MEMORY_H_
