#include "storage/read_log.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/clock.h"

namespace thermocline::storage {

ReadLog::ReadLog(size_t most_reads) : most_reads_(most_reads) {
  reads_.reserve(most_reads);
}

void ReadLog::BeginToken() {
  const std::lock_guard lock(mutex_);
  TC_CHECK(!is_on_);
  is_on_ = true;
  tokens_.push_back({.first_read = reads_.size(), .is_whole = !is_full_});
}

void ReadLog::EndToken() {
  const std::lock_guard lock(mutex_);
  TC_CHECK(is_on_);
  is_on_ = false;
  tokens_.back().num_reads = reads_.size() - tokens_.back().first_read;
}

void ReadLog::Clear() {
  const std::lock_guard lock(mutex_);
  TC_CHECK(!is_on_);
  is_full_ = false;
  reads_.clear();
  tokens_.clear();
}

void ReadLog::Note(std::span<const Read> reads, bool begins_turn) {
  const std::lock_guard lock(mutex_);
  if (!is_on_ || is_full_) return;
  if (reads_.size() + reads.size() > most_reads_) {
    // Half of a token's reads would be taken for all of them.
    is_full_ = true;
    reads_.resize(tokens_.back().first_read);
    tokens_.back().is_whole = false;
    return;
  }
  for (const Read& read : reads) {
    TC_CHECK(read.num_bytes <= std::numeric_limits<uint32_t>::max());
    reads_.push_back({.offset = read.offset,
                      .num_bytes = static_cast<uint32_t>(read.num_bytes),
                      .file_idx = read.file_idx & 0x7fffffffu,
                      .begins_turn = std::exchange(begins_turn, false)});
  }
}

void ReadLog::NoteWait(double seconds) {
  const std::lock_guard lock(mutex_);
  if (is_on_) tokens_.back().waited_seconds += seconds;
}

class LoggedReader final : public BlockReader {
 public:
  LoggedReader(std::unique_ptr<BlockReader> reader, size_t depth,
               std::shared_ptr<ReadLog> log)
      : log_(std::move(log)), reader_(std::move(reader)) {
    log_->reader_name_ = reader_->name();
    log_->depth_ = depth;
  }

  std::string_view name() const override { return reader_->name(); }
  size_t alignment() const override { return reader_->alignment(); }
  uint64_t file_bytes(uint32_t file_idx) const override {
    return reader_->file_bytes(file_idx);
  }
  std::optional<os::FileIdentity> identity(uint32_t file_idx) const override {
    return reader_->identity(file_idx);
  }
  Status CheckUnchanged() const override { return reader_->CheckUnchanged(); }
  std::string Describe() const override { return reader_->Describe(); }
  void RegisterMemory(std::span<const std::span<std::byte>> ranges) override {
    reader_->RegisterMemory(ranges);
  }

  void Submit(std::span<const Read> reads) override {
    const bool was_idle = num_open_.fetch_add(reads.size()) == 0;
    log_->Note(reads, was_idle);
    reader_->Submit(reads);
  }

  size_t Reap(std::span<Done> done, bool waits) override {
    const Stopwatch watch;
    const size_t num = reader_->Reap(done, waits);
    if (waits) log_->NoteWait(watch.Seconds());
    num_open_ -= num;
    return num;
  }

  ReaderStats stats() const override { return reader_->stats(); }

 private:
  const std::shared_ptr<ReadLog> log_;
  const std::unique_ptr<BlockReader> reader_;
  std::atomic<size_t> num_open_ = 0;  // submitted, not reaped
};

std::unique_ptr<BlockReader> LogReads(std::unique_ptr<BlockReader> reader,
                                      size_t depth,
                                      std::shared_ptr<ReadLog> log) {
  return std::make_unique<LoggedReader>(std::move(reader), depth,
                                        std::move(log));
}

}  // namespace thermocline::storage
