#include "storage/read_replay.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include "base/clock.h"
#include "base/math.h"

namespace thermocline::storage {
namespace {

constexpr size_t kReplayAlignment = 4096;

class Replay {
 public:
  Replay(BlockReader& reader, const ReadLog& log, const ReplayMemory& memory,
         const ReplayOptions& options)
      : reader_(reader), log_(log), memory_(memory), options_(options) {
    for (const ReadLog::Token& token : log_.tokens()) {
      if (token.is_whole) tokens_.emplace_back();
    }
    for (size_t i = 0; i < memory_.num_places(); ++i) free_.push_back(i);
    token_of_.resize(memory_.num_places());
    batch_.reserve(memory_.num_places());
  }

  Result<std::vector<double>> Run() {
    watch_.Restart();
    size_t token_idx = 0;
    for (const ReadLog::Token& token : log_.tokens()) {
      if (!token.is_whole) break;
      for (const LoggedRead& read : log_.reads_of(token)) Add(token_idx, read);
      ++token_idx;
    }
    Submit();
    while (num_open_ > 0) Reap();
    if (!error_.has_value()) return tl::unexpected(error_.error());
    return Seconds();
  }

 private:
  struct TokenTime {
    size_t num_open = 0;
    double end_s = 0.0;  // of its last read
  };

  void Add(size_t token_idx, const LoggedRead& read) {
    if (read.begins_turn != 0 && options_.in_turns) {
      Submit();
      while (num_open_ > 0) Reap();
    }
    for (size_t begin = 0; begin < read.num_bytes;) {
      const size_t num_bytes =
          std::min(read.num_bytes - begin, memory_.place_bytes());
      AddPart(token_idx, {.file_idx = read.file_idx,
                          .offset = read.offset + begin,
                          .num_bytes = num_bytes});
      begin += num_bytes;
    }
  }

  // As many are submitted at once as have come meanwhile.
  void AddPart(size_t token_idx, Read read) {
    if (free_.empty()) {
      Submit();
      Reap();
    }
    const size_t place = free_.back();
    free_.pop_back();
    read.to = memory_.place(place);
    read.tag = place;
    token_of_[place] = token_idx;
    ++tokens_[token_idx].num_open;
    ++num_open_;
    batch_.push_back(read);
  }

  void Submit() {
    if (!batch_.empty()) reader_.Submit(batch_);
    batch_.clear();
  }

  void Reap() {
    std::array<Done, 32> done;
    const size_t num = reader_.Reap(done, /*waits=*/true);
    const double now = watch_.Seconds();
    for (Done& read : std::span(done).first(num)) {
      free_.push_back(read.tag);
      TokenTime& token = tokens_[token_of_[read.tag]];
      if (--token.num_open == 0) token.end_s = now;
      if (!read.status && error_) error_ = std::move(read.status);
    }
    num_open_ -= num;
  }

  std::vector<double> Seconds() const {
    std::vector<double> seconds;
    double before = 0.0;
    for (const TokenTime& token : tokens_) {
      // Reads of the next may be over first.
      const double end = std::max(before, token.end_s);
      seconds.push_back(end - before);
      before = end;
    }
    return seconds;
  }

  BlockReader& reader_;
  const ReadLog& log_;
  const ReplayMemory& memory_;
  const ReplayOptions options_;
  std::vector<size_t> free_;      // places
  std::vector<size_t> token_of_;  // of each place
  std::vector<Read> batch_;
  std::vector<TokenTime> tokens_;
  size_t num_open_ = 0;
  Status error_;
  Stopwatch watch_;
};

}  // namespace

Result<ReplayMemory> ReplayMemory::For(const ReadLog& log, size_t depth) {
  size_t longest = 1;
  for (const LoggedRead& read : log.reads()) {
    longest = std::max<size_t>(longest, read.num_bytes);
  }
  ReplayMemory memory;
  memory.place_bytes_ =
      RoundUp(std::min(longest, ReplayOptions::kLongestRead), kReplayAlignment);
  memory.num_places_ = std::clamp<size_t>(
      depth, 1, ReplayOptions::kMostBytes / memory.place_bytes_);
  TC_ASSIGN_OR_RETURN(memory.memory_,
                      os::AlignedBuffer::Allocate((memory.num_places_ + 1) *
                                                  memory.place_bytes_));
  memory.base_ = memory.memory_.data();
  memory.base_ +=
      -reinterpret_cast<uintptr_t>(memory.base_) & (kReplayAlignment - 1);
  // So that no read is the first to touch a page.
  std::ranges::fill(memory.bytes(), std::byte{0});
  return memory;
}

Result<std::vector<double>> ReplayReads(BlockReader& reader, const ReadLog& log,
                                        const ReplayMemory& memory,
                                        const ReplayOptions& options) {
  return Replay(reader, log, memory, options).Run();
}

}  // namespace thermocline::storage
