// Reads by io_uring.
#include "storage/system_readers.h"

#ifdef TC_LIBURING

#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/check.h"
#include "os/memory.h"
#include "storage/done_queue.h"
#include "storage/read_steps.h"
#include "storage/ring_queue.h"
#include "storage/uring.h"

namespace thermocline::storage {
namespace {

// Reads that bounce at once; more wait for a buffer.
constexpr size_t kBouncesMax = kMostBounced / kBounceBytes;
// How often a read is given to the kernel again that it had no room for.
constexpr int kTriesMax = 1000;

// Invariants
//   1. mutex_ is held for all but one thing: waiting in the kernel.
//   2. Who waits there holds the completion side (is_held_), and no one else
//      touches it meanwhile; the submission side is the mutex's.
//   3. A read that the kernel has has a slot, and each slot one entry of the
//      ring at most: entries do not run out.
//   4. A bounce buffer is held by a call that the ring has, and free again when
//      that ends: who waits for one gets it.
class UringReader final : public BlockReader {
 public:
  UringReader(std::vector<OpenFile> files, std::unique_ptr<Uring> ring,
              size_t depth, os::AlignedBuffer bounces)
      : files_(std::move(files)),
        alignment_(AlignmentOf(files_)),
        bounces_(std::move(bounces)),
        ring_(std::move(ring)),
        slots_(depth) {
    for (size_t i = 0; i < depth; ++i) free_slots_.push_back(i);
    for (size_t i = 0; i < bounces_.size() / kBounceBytes; ++i) {
      free_bounces_.push_back(bounces_.data() + i * kBounceBytes);
    }
  }

  ~UringReader() override {
    while (num_in_kernel() > 0) {
      WaitInKernel();
      num_in_ring_ -= TakeCompletions([](size_t, int) {});
    }
  }

  std::string_view name() const override { return "io_uring"; }
  size_t alignment() const override { return alignment_; }
  uint64_t file_bytes(uint32_t file_idx) const override {
    TC_CHECK(file_idx < files_.size());
    return files_[file_idx].num_bytes;
  }
  std::optional<os::FileIdentity> identity(uint32_t file_idx) const override {
    TC_CHECK(file_idx < files_.size());
    return IdentityOf(files_[file_idx]);
  }
  Status CheckUnchanged() const override {
    return storage::CheckUnchanged(files_);
  }
  std::string Describe() const override {
    return BlockReader::Describe() + memory_note_;
  }

  void RegisterMemory(std::span<const std::span<std::byte>> ranges) override {
    TC_CHECK(num_in_ring_ == 0 && memory_note_.empty());
    // Through the page cache a read is a copy, for which pages need not be
    // looked up.
    if (alignment_ == 1 || ranges.empty()) return;
    const Status status = ring_->RegisterMemory(ranges);
    memory_note_ = status
                       ? ", registered buffers"
                       : ", buffers not registered: " + status.error().message;
  }

  void Submit(std::span<const Read> reads) override {
    for (const Read& read : reads) {
      TC_CHECK(read.file_idx < files_.size());
      TC_CHECK(read.to != nullptr || read.num_bytes == 0);
    }
    const std::lock_guard lock(mutex_);
    done_.AddSubmitted(reads);
    for (const Read& read : reads) queue_.Push(read);
    MoveOn();
    if (done_.num_over() > 0) moved_.notify_all();
  }

  size_t Reap(std::span<Done> done, bool waits) override {
    if (done.empty()) return 0;
    std::unique_lock lock(mutex_);
    for (;;) {
      MoveOn();
      const size_t num = done_.Take(done);
      if (num > 0 || !waits || done_.num_open() == 0) {
        LetOthersGoOn();
        return num;
      }
      if (is_held_) {
        moved_.wait(lock);
      } else if (num_in_kernel() == 0) {
        // It had no memory for more requests just now.
        lock.unlock();
        std::this_thread::yield();
        lock.lock();
      } else {
        is_held_ = true;
        lock.unlock();
        WaitInKernel();
        lock.lock();
        is_held_ = false;
      }
    }
  }

  ReaderStats stats() const override {
    const std::lock_guard lock(mutex_);
    ReaderStats stats = done_.stats();
    stats.num_bounced = num_bounced_;
    stats.num_registered = num_registered_;
    return stats;
  }

 private:
  struct Slot {
    ReadSteps steps;
    ReadSteps::Call call = {};
    std::byte* bounce = nullptr;
    int num_tries = 0;  // since it last got on
  };

  size_t num_in_kernel() const {
    return num_in_ring_ - io_uring_sq_ready(ring_->get());
  }

  void WaitInKernel() {
    io_uring_cqe* cqe = nullptr;
    // EINTR, by a signal: the caller looks and waits again.
    (void)io_uring_wait_cqe(ring_->get(), &cqe);
  }

  // Calls end(slot_idx, result) for what the kernel is done with; how many.
  template <typename End>
  size_t TakeCompletions(End&& end) {
    unsigned head = 0, num = 0;
    io_uring_cqe* cqe = nullptr;
    io_uring_for_each_cqe(ring_->get(), head, cqe) {
      end(static_cast<size_t>(cqe->user_data), cqe->res);
      ++num;
    }
    io_uring_cq_advance(ring_->get(), num);
    return num;
  }

  // All that can be done without waiting.
  void MoveOn() {
    if (!is_held_) {
      TakeCompletions([this](size_t slot_idx, int result) {
        --num_in_ring_;
        EndCall(slot_idx, result);
      });
    }
    while (!waits_for_bounce_.empty() && !free_bounces_.empty()) {
      BeginCall(waits_for_bounce_.Pop());
    }
    while (!queue_.empty() && !free_slots_.empty()) BeginRead(queue_.Pop());
    Flush();
  }

  void LetOthersGoOn() {
    if (done_.num_over() > 0 || done_.num_open() == 0) {
      moved_.notify_all();
    } else if (!is_held_) {
      moved_.notify_one();
    }
  }

  void BeginRead(const Read& read) {
    Status status = CheckRange(files_[read.file_idx], read);
    if (!status.has_value() || read.num_bytes == 0) {
      done_.Push({read.tag, std::move(status)});
      return;
    }
    const size_t slot_idx = free_slots_.back();
    free_slots_.pop_back();
    slots_[slot_idx] = {.steps = ReadSteps(&files_[read.file_idx], read)};
    BeginCall(slot_idx);
  }

  void BeginCall(size_t slot_idx) {
    Slot& slot = slots_[slot_idx];
    if (slot.steps.wants_bounce()) {
      if (free_bounces_.empty()) {
        waits_for_bounce_.Push(slot_idx);
        return;
      }
      slot.bounce = free_bounces_.back();
      free_bounces_.pop_back();
    }
    slot.call = slot.steps.Next(slot.bounce);
    io_uring_sqe* sqe = io_uring_get_sqe(ring_->get());
    TC_CHECK(sqe != nullptr);
    num_registered_ += static_cast<uint64_t>(ring_->PrepareRead(
        sqe, slot.steps.file(), slot.steps.read().file_idx, slot.call));
    io_uring_sqe_set_data64(sqe, slot_idx);
    ++num_in_ring_;
  }

  void EndCall(size_t slot_idx, int result) {
    Slot& slot = slots_[slot_idx];
    // A thread that ends takes along what it has submitted: ECANCELED.
    const bool is_refused =
        result == -EAGAIN || result == -EINTR || result == -ECANCELED;
    Status status;
    bool goes_on = is_refused && ++slot.num_tries < kTriesMax;
    if (result < 0) {
      if (!goes_on) {
        status = FailedRead(slot.steps.file(), slot.steps.read(), -result);
      }
    } else if (slot.steps.Take(slot.call, static_cast<size_t>(result))) {
      slot.num_tries = 0;
      goes_on = !slot.steps.is_over();
    } else {
      status = EndedRead(slot.steps.file(), slot.steps.read());
    }
    if (slot.bounce != nullptr) {
      free_bounces_.push_back(std::exchange(slot.bounce, nullptr));
    }
    if (goes_on) {
      BeginCall(slot_idx);
      return;
    }
    num_bounced_ += slot.steps.has_bounced();
    done_.Push({slot.steps.read().tag, std::move(status)});
    free_slots_.push_back(slot_idx);
  }

  // Gives the kernel what the ring has for it, all at once.
  void Flush() {
    while (io_uring_sq_ready(ring_->get()) > 0) {
      const int num = io_uring_submit(ring_->get());
      if (num > 0 || num == -EINTR) continue;
      // No memory for requests: Reap tries again.
      TC_CHECK(num == 0 || num == -EAGAIN || num == -EBUSY);
      return;
    }
  }

  const std::vector<OpenFile> files_;
  const size_t alignment_;
  const os::AlignedBuffer bounces_;
  const std::unique_ptr<Uring> ring_;
  std::string memory_note_;  // how registering it went

  mutable std::mutex mutex_;
  std::condition_variable moved_;  // something is over, or nobody holds
  bool is_held_ = false;
  std::vector<Slot> slots_;
  std::vector<size_t> free_slots_;
  std::vector<std::byte*> free_bounces_;
  size_t num_in_ring_ = 0;  // prepared and not completed
  RingQueue<size_t> waits_for_bounce_;
  RingQueue<Read> queue_;
  DoneQueue done_;
  uint64_t num_bounced_ = 0;
  uint64_t num_registered_ = 0;
};

}  // namespace

Result<std::unique_ptr<BlockReader>> MakeUringReader(
    std::vector<OpenFile>& files, const ReaderOptions& options) {
  auto ring = std::make_unique<Uring>();
  TC_RETURN_IF_ERROR(ring->Open(options.depth));
  ring->RegisterFiles(files);
  const size_t num_bounces = std::min(options.depth, kBouncesMax);
  TC_ASSIGN_OR_RETURN(os::AlignedBuffer bounces,
                      os::AlignedBuffer::Reserve(num_bounces * kBounceBytes));
  return std::make_unique<UringReader>(std::move(files), std::move(ring),
                                       options.depth, std::move(bounces));
}

}  // namespace thermocline::storage

#else

namespace thermocline::storage {

Result<std::unique_ptr<BlockReader>> MakeUringReader(std::vector<OpenFile>&,
                                                     const ReaderOptions&) {
  return Fail(ErrorCode::kUnsupported,
              "io_uring: this program was built without liburing");
}

}  // namespace thermocline::storage

#endif
