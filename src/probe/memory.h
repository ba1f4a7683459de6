// How fast this machine reads memory: the roof that decoding runs under.
#ifndef THERMOCLINE_PROBE_MEMORY_H_
#define THERMOCLINE_PROBE_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "os/thread_pool.h"

namespace thermocline::probe {

struct ReadRate {
  double gb_per_s_best;  // 1 GB = 1e9 bytes
  double gb_per_s_median;
};

// Sums `num_bytes` of anonymous memory sequentially, each worker its own share,
// num_rounds times after one warm-up. Verifies the sum. kResourceExhausted.
Result<ReadRate> MeasureSequentialRead(os::ThreadPool& pool, size_t num_bytes,
                                       int num_rounds);

// Bytes of the last-level cache, 0 if unknown. What fits in it shows no roof.
uint64_t LastLevelCacheBytes();

}  // namespace thermocline::probe

#endif  // THERMOCLINE_PROBE_MEMORY_H_
