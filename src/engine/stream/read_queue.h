// Reads on their way, and who is told when they are over.
#ifndef THERMOCLINE_ENGINE_STREAM_READ_QUEUE_H_
#define THERMOCLINE_ENGINE_STREAM_READ_QUEUE_H_

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/status.h"
#include "storage/block_reader.h"

namespace thermocline::engine {

// Several owners share a reader. Nobody has a thread for it: whoever waits for
// something reaps for all.
// Threads  Submit and WaitUntil from any; owners are told under the queue's
//          lock, under which WaitUntil asks too.
class ReadQueue {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // The read that it numbered so is over.
    virtual void OnRead(uint32_t number, const Status& status) = 0;
  };

  explicit ReadQueue(std::unique_ptr<storage::BlockReader> reader)
      : reader_(std::move(reader)) {}

  const storage::BlockReader& reader() const { return *reader_; }

  // The owner outlives its reads. Before any is submitted.
  uint32_t Add(Owner* owner) {
    owners_.push_back(owner);
    return static_cast<uint32_t>(owners_.size() - 1);
  }
  static uint64_t TagOf(uint32_t owner_idx, uint32_t number) {
    return uint64_t{owner_idx} << 32 | number;
  }
  // Reads with tags of TagOf. Who waits for reads that another thread submits
  // meanwhile is woken by Change.
  void Submit(std::span<const storage::Read> reads) {
    // Before they are: else those that are over at once would be missing.
    num_open_ += static_cast<int64_t>(reads.size());
    reader_->Submit(reads);
  }

  // Changes under the lock what waiting threads ask about, then wakes them.
  template <typename Function>
  void Change(Function change) {
    {
      const std::lock_guard lock(mutex_);
      change();
    }
    changed_.notify_all();
  }

  // Submitted, and nobody was told yet.
  int64_t num_open() const { return num_open_; }

  // Tells owners of reads that are over already, and lets others begin that the
  // reader had no room for. Does not wait.
  void Poll() {
    std::unique_lock lock(mutex_);
    while (!is_reaping_ && num_open_ > 0) {
      if (Reap(lock, /*waits=*/false) < kMostReaped) return;
    }
  }

  // Returns once is_there(), which is asked under the lock, whenever reads are
  // over, and behind Change. It comes to be by one of these.
  template <typename Condition>
  void WaitUntil(Condition is_there) {
    std::unique_lock lock(mutex_);
    while (!is_there()) {
      if (is_reaping_ || num_open_ <= 0) {
        changed_.wait(lock);
        continue;
      }
      Reap(lock, /*waits=*/true);
    }
  }

 private:
  static constexpr size_t kMostReaped = 32;

  // How many. Without the lock meanwhile. None, if a read is counted but not
  // submitted.
  size_t Reap(std::unique_lock<std::mutex>& lock, bool waits) {
    is_reaping_ = true;
    lock.unlock();
    std::array<storage::Done, kMostReaped> done;
    const size_t count = reader_->Reap(done, waits);
    num_open_ -= static_cast<int64_t>(count);
    lock.lock();
    is_reaping_ = false;
    for (const storage::Done& read : std::span(done).first(count)) {
      owners_[read.tag >> 32]->OnRead(static_cast<uint32_t>(read.tag),
                                      read.status);
    }
    changed_.notify_all();
    return count;
  }

  std::unique_ptr<storage::BlockReader> reader_;
  std::vector<Owner*> owners_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_reaping_ = false;            // under the lock
  std::atomic<int64_t> num_open_ = 0;  // submitted, not reaped
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STREAM_READ_QUEUE_H_
