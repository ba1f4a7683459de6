// Reads that are over and not reaped yet.
#ifndef THERMOCLINE_STORAGE_DONE_QUEUE_H_
#define THERMOCLINE_STORAGE_DONE_QUEUE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "storage/block_reader.h"
#include "storage/ring_queue.h"

namespace thermocline::storage {

// With the count of those that were submitted, so that whoever waits knows when
// nothing will come any more. Thread-compatible: readers hold their lock.
class DoneQueue {
 public:
  void AddSubmitted(std::span<const Read> reads) {
    num_open_ += reads.size();
    for (const Read& read : reads) num_bytes_ += read.num_bytes;
  }
  void Push(Done done) { over_.Push(std::move(done)); }

  // Moves what is over to `done`; how many.
  size_t Take(std::span<Done> done) {
    const size_t num = std::min(done.size(), over_.size());
    for (size_t i = 0; i < num; ++i) done[i] = over_.Pop();
    num_open_ -= num;
    num_reaped_ += num;
    return num;
  }

  size_t num_over() const { return over_.size(); }
  // Submitted and not reaped, over or not.
  size_t num_open() const { return num_open_; }
  ReaderStats stats() const {
    return {.num_reads = num_reaped_, .num_bytes = num_bytes_};
  }

 private:
  RingQueue<Done> over_;
  size_t num_open_ = 0;
  uint64_t num_reaped_ = 0;
  uint64_t num_bytes_ = 0;
};

}  // namespace thermocline::storage

#endif  // THERMOCLINE_STORAGE_DONE_QUEUE_H_
