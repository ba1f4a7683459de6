// How fast this machine reads memory: the roof that decoding runs under.
#ifndef THERMOCLINE_PROBE_MEMORY_H_
#define THERMOCLINE_PROBE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "os/memory.h"
#include "os/thread_pool.h"
#include "probe/rows_apart.h"

namespace thermocline::probe {

// Reads anonymous memory sequentially with several threads, each its own share
// that lies in its NUMA node, as fast as software can.
// Owns     the memory and a thread pool.
// Threads  one caller at a time.
class ReadProbe {
 public:
  // num_threads 0: one per physical core. Fills the memory: one thread took 2.5
  // s per GB on a machine that others used too. kInvalidArgument: not even a
  // word per thread, or a thread count that a pool refuses. kIo: no more
  // threads. kResourceExhausted: no memory.
  static Result<ReadProbe> Create(int num_threads, size_t num_bytes);

  // The best rate of `num_rounds` rounds, each a pass over all bytes in either
  // of two ways to read, in units of 1e9 bytes per second. Verifies every sum:
  // kCorrupt when memory gave another than was written. kInvalidArgument: fewer
  // than one round.
  Result<double> Measure(int num_rounds);

  // The same for rows of row_bytes that lie apart, one in kRowsPerRead
  // (probe/rows_apart.h), in any of its ways to ask: a round reads all rows, in
  // as many passes. kInvalidArgument also: row_bytes is no multiple of a cache
  // line's 64, or 0, or some thread has less than 8 * kRowsPerRead rows.
  Result<double> MeasureRowsApart(size_t row_bytes, int num_rounds);

  int num_threads() const { return pool_->num_threads(); }
  size_t num_bytes() const { return words_.size_bytes(); }

 private:
  // One cache line per worker: neighbours do not fight over it.
  struct alignas(64) Sums {
    uint64_t written = 0;
    uint64_t read = 0;
  };
  ReadProbe(std::unique_ptr<os::ThreadPool> pool, os::AlignedBuffer buffer,
            size_t num_words);
  std::span<const uint64_t> Share(int worker_idx) const;
  Status CheckRounds(int num_rounds) const;
  Status CheckSums() const;
  // How many of the bytes are rows'; checks row_bytes.
  Result<size_t> BytesOfRows(size_t row_bytes) const;
  // All rows, in passes, into `sums_`; the seconds that it took.
  double ReadRowsApart(size_t row_words, RowPrefetch prefetching);

  std::unique_ptr<os::ThreadPool> pool_;
  os::AlignedBuffer buffer_;
  std::span<uint64_t> words_;
  std::vector<Sums> sums_;  // of each worker
};

// Bytes for a probe of this machine's memory, to compare with somebody who
// reads working_set bytes again and again. A cache keeps some of what is larger
// than itself (of twice its size enough to be a tenth faster than memory), so
// the probe reads as much: at least twice the last-level cache and 256 MiB, and
// no more than eight times the cache, which shows memory alone. cache_bytes 0:
// unknown, taken for 128 MiB. At most a quarter of the RAM that is available,
// or 1 MiB: is_capped if that is less, and then the cache may have a part of
// it, the more the fewer bytes there are.
struct ProbeSize {
  size_t num_bytes;
  bool is_capped;
};
ProbeSize ProbeSizeFor(uint64_t cache_bytes, uint64_t available_bytes,
                       uint64_t working_set = UINT64_MAX);

// Bytes of the last-level cache, all instances of the machine together; 0 if
// unknown. What fits in it shows no roof.
uint64_t LastLevelCacheBytes(const std::string& sys_root = "/sys");

}  // namespace thermocline::probe

#endif  // THERMOCLINE_PROBE_MEMORY_H_
