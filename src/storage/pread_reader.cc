#include "storage/system_readers.h"

#include <unistd.h>
#include <csignal>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/check.h"
#include "os/memory.h"
#include "os/start_thread.h"
#include "storage/done_queue.h"
#include "storage/read_steps.h"
#include "storage/ring_queue.h"

namespace thermocline::storage {
namespace {

// Of one thread, aligned to kBounceAlignment: no pages before it is used.
Result<os::AlignedBuffer> ReserveBounce() {
  return os::AlignedBuffer::Reserve(kBounceBytes);
}

Status ReadByCalls(ReadSteps& steps, std::byte* bounce) {
  while (!steps.is_over()) {
    const ReadSteps::Call call = steps.Next(bounce);
    ssize_t num = 0;
    do {
      num = pread(steps.file().fd.get(), call.to, call.num_bytes,
                  static_cast<off_t>(call.offset));
    } while (num < 0 && errno == EINTR);
    if (num < 0) return FailedRead(steps.file(), steps.read(), errno);
    if (!steps.Take(call, static_cast<size_t>(num))) {
      return EndedRead(steps.file(), steps.read());
    }
  }
  return {};
}

class PreadReader final : public BlockReader {
 public:
  explicit PreadReader(std::vector<OpenFile> files)
      : files_(std::move(files)), alignment_(AlignmentOf(files_)) {}

  ~PreadReader() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    comes_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  Status Start(size_t num_threads) {
    // Signals are for the threads that expect them.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    Status status = StartThreads(num_threads);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return status;
  }

  std::string_view name() const override { return "pread"; }
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

  void Submit(std::span<const Read> reads) override {
    for (const Read& read : reads) {
      TC_CHECK(read.file_idx < files_.size());
      TC_CHECK(read.to != nullptr || read.num_bytes == 0);
    }
    {
      const std::lock_guard lock(mutex_);
      done_.AddSubmitted(reads);
      for (const Read& read : reads) queue_.Push(read);
    }
    const size_t num_woken = std::min(reads.size(), threads_.size());
    for (size_t i = 0; i < num_woken; ++i) comes_.notify_one();
  }

  size_t Reap(std::span<Done> done, bool waits) override {
    if (done.empty()) return 0;
    std::unique_lock lock(mutex_);
    if (waits) {
      is_over_.wait(lock, [this] {
        return done_.num_over() > 0 || done_.num_open() == 0;
      });
    }
    const size_t num = done_.Take(done);
    if (num > 0 && done_.num_open() == 0) is_over_.notify_all();
    return num;
  }

  ReaderStats stats() const override {
    const std::lock_guard lock(mutex_);
    ReaderStats stats = done_.stats();
    stats.num_bounced = num_bounced_;
    return stats;
  }

 private:
  Status StartThreads(size_t num_threads) {
    for (size_t i = 0; i < num_threads; ++i) {
      TC_ASSIGN_OR_RETURN(os::AlignedBuffer bounce, ReserveBounce());
      bounces_.push_back(std::move(bounce));
    }
    for (size_t i = 0; i < num_threads; ++i) {
      TC_ASSIGN_OR_RETURN(
          std::thread thread,
          os::StartThread(fmt::format("thread {} of {} that read files", i + 1,
                                      num_threads),
                          [this, i] { Work(bounces_[i].data()); }));
      threads_.push_back(std::move(thread));
    }
    return {};
  }

  void Work(std::byte* bounce) {
    std::unique_lock lock(mutex_);
    for (;;) {
      comes_.wait(lock, [this] { return ends_ || !queue_.empty(); });
      if (ends_) return;
      const Read read = queue_.Pop();
      lock.unlock();
      const OpenFile& file = files_[read.file_idx];
      ReadSteps steps(&file, read);
      Status status = CheckRange(file, read);
      if (status.has_value()) status = ReadByCalls(steps, bounce);
      lock.lock();
      num_bounced_ += steps.has_bounced();
      done_.Push({read.tag, std::move(status)});
      is_over_.notify_one();
    }
  }

  const std::vector<OpenFile> files_;
  const size_t alignment_;
  std::vector<os::AlignedBuffer> bounces_;  // per thread

  mutable std::mutex mutex_;
  std::condition_variable comes_;    // to read
  std::condition_variable is_over_;  // to reap
  bool ends_ = false;
  RingQueue<Read> queue_;
  DoneQueue done_;
  uint64_t num_bounced_ = 0;

  std::vector<std::thread> threads_;
};

}  // namespace

Result<std::unique_ptr<BlockReader>> MakePreadReader(
    std::vector<OpenFile>& files, const ReaderOptions& options) {
  auto reader = std::make_unique<PreadReader>(std::move(files));
  TC_RETURN_IF_ERROR(reader->Start(std::min(options.depth, kPreadThreadsMax)));
  return reader;
}

}  // namespace thermocline::storage
