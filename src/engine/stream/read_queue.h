// Reads on their way, and who is told when they are over.
#ifndef THERMOCLINE_ENGINE_STREAM_READ_QUEUE_H_
#define THERMOCLINE_ENGINE_STREAM_READ_QUEUE_H_

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/check.h"
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
  // Reads with tags of TagOf.
  void Submit(std::span<const storage::Read> reads) { reader_->Submit(reads); }

  // Returns once is_there(), which is asked under the lock and whenever a read
  // is over. Some read is still to come until it is. (CHECKed)
  template <typename Condition>
  void WaitUntil(Condition is_there) {
    std::unique_lock lock(mutex_);
    while (!is_there()) {
      if (is_reaping_) {
        changed_.wait(lock);
        continue;
      }
      is_reaping_ = true;
      lock.unlock();
      std::array<storage::Done, kMostReaped> done;
      const size_t count = reader_->Reap(done, /*waits=*/true);
      lock.lock();
      is_reaping_ = false;
      TC_CHECK(count > 0);
      for (const storage::Done& read : std::span(done).first(count)) {
        owners_[read.tag >> 32]->OnRead(static_cast<uint32_t>(read.tag),
                                        read.status);
      }
      changed_.notify_all();
    }
  }

 private:
  static constexpr size_t kMostReaped = 32;

  std::unique_ptr<storage::BlockReader> reader_;
  std::vector<Owner*> owners_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_reaping_ = false;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STREAM_READ_QUEUE_H_
