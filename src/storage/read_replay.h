// Reads that were noted, again, with nothing computed beside them.
#ifndef THERMOCLINE_STORAGE_READ_REPLAY_H_
#define THERMOCLINE_STORAGE_READ_REPLAY_H_

#include <cstddef>
#include <span>
#include <vector>

#include "base/status.h"
#include "os/memory.h"
#include "storage/block_reader.h"
#include "storage/read_log.h"

namespace thermocline::storage {

struct ReplayOptions {
  // Of the memory that reads go to, at most.
  static constexpr size_t kMostBytes = size_t{64} << 20;
  // Longer reads are cut, so that several are under way in that memory.
  static constexpr size_t kLongestRead = size_t{4} << 20;
  size_t depth = 64;  // reads under way, at most; fewer of long ones
  // Waits for all of a turn before the next begins, as the run did that could
  // not know what it would read next; else all reads are known from the start.
  bool in_turns = false;
};

// Where they go: places for `depth` reads, as long as the log's or cut. A
// reader that is to know it (RegisterMemory) is opened behind it.
class ReplayMemory {
 public:
  // kResourceExhausted.
  static Result<ReplayMemory> For(const ReadLog& log, size_t depth);
  size_t num_places() const { return num_places_; }
  size_t place_bytes() const { return place_bytes_; }
  std::byte* place(size_t idx) const { return base_ + idx * place_bytes_; }
  std::span<std::byte> bytes() const {
    return {base_, num_places_ * place_bytes_};
  }

 private:
  os::AlignedBuffer memory_;
  std::byte* base_ = nullptr;
  size_t num_places_ = 0;
  size_t place_bytes_ = 0;
};

// Reads what the log's whole tokens read, in that order, to memory that was
// made for the log and depth. [num_tokens] seconds: from when the reads of
// those before a token were over until its own were; one without reads takes 0.
// kIo: a read failed. Nobody else reads meanwhile.
Result<std::vector<double>> ReplayReads(BlockReader& reader, const ReadLog& log,
                                        const ReplayMemory& memory,
                                        const ReplayOptions& options);

}  // namespace thermocline::storage

#endif  // THERMOCLINE_STORAGE_READ_REPLAY_H_
