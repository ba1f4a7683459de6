// A reader of memory whose time and faults are drawn.

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "storage/block_reader.h"
#include "storage/done_queue.h"

namespace thermocline::storage {
namespace {

// What stands where a read goes until it is over, so that whoever looks too
// early sees nothing that could pass.
constexpr int kNotThereYet = 0xa5;

struct Drawn {
  Read read;
  size_t num_got = 0;
  uint64_t due = 0;    // the Reap call that ends it, or what it has first
  uint64_t order = 0;  // among those of the same call
  bool fails = false;
  bool is_short = false;  // the first time
};

class FakeReader final : public BlockReader {
 public:
  FakeReader(std::vector<std::span<const std::byte>> files,
             const FakeOptions& options)
      : files_(std::move(files)), options_(options), random_(options.seed) {}

  std::string_view name() const override { return "fake"; }
  size_t alignment() const override { return options_.alignment; }
  uint64_t file_bytes(uint32_t file_idx) const override {
    TC_CHECK(file_idx < files_.size());
    return files_[file_idx].size();
  }
  std::optional<os::FileIdentity> identity(uint32_t) const override {
    return std::nullopt;
  }
  Status CheckUnchanged() const override { return {}; }

  void Submit(std::span<const Read> reads) override {
    const std::lock_guard lock(mutex_);
    done_.AddSubmitted(reads);
    for (const Read& read : reads) Draw(read);
  }

  size_t Reap(std::span<Done> done, bool waits) override {
    if (done.empty()) return 0;
    const std::lock_guard lock(mutex_);
    for (;;) {
      Tick();
      const size_t num = done_.Take(done);
      if (num > 0 || !waits || done_.num_open() == 0) return num;
    }
  }

  ReaderStats stats() const override {
    const std::lock_guard lock(mutex_);
    ReaderStats stats = done_.stats();
    stats.num_bounced = num_bounced_;
    return stats;
  }

 private:
  void Draw(const Read& read) {
    TC_CHECK(read.file_idx < files_.size());
    if (read.num_bytes > 0) {
      std::memset(read.to, kNotThereYet, read.num_bytes);
    }
    Drawn drawn{.read = read};
    // Each is drawn for every read, so that one option does not change what
    // another one draws.
    drawn.fails = random_.Uniform() < options_.fail_share;
    drawn.is_short = random_.Uniform() < options_.short_share;
    drawn.fails |= ++num_submitted_ == options_.fail_read;
    DrawTime(drawn);
    const size_t odd =
        read.offset | read.num_bytes | reinterpret_cast<uintptr_t>(read.to);
    if (odd % options_.alignment != 0) ++num_bounced_;
    drawn_.push_back(drawn);
  }

  void DrawTime(Drawn& drawn) {
    drawn.due =
        now_ + 1 + random_.Below(std::max<size_t>(options_.most_waits, 1));
    drawn.order = random_.Next();
  }

  // One Reap call's time goes by.
  void Tick() {
    ++now_;
    const auto over =
        std::partition(drawn_.begin(), drawn_.end(),
                       [this](const Drawn& drawn) { return drawn.due > now_; });
    std::sort(over, drawn_.end(), [](const Drawn& a, const Drawn& b) {
      return std::pair(a.due, a.order) < std::pair(b.due, b.order);
    });
    due_.assign(over, drawn_.end());
    drawn_.erase(over, drawn_.end());
    for (Drawn& drawn : due_) End(drawn);
  }

  // Ends it, or its first part.
  void End(Drawn& drawn) {
    const Read& read = drawn.read;
    const std::span<const std::byte> file = files_[read.file_idx];
    if (read.offset > file.size() ||
        read.num_bytes > file.size() - read.offset) {
      done_.Push({read.tag, Error("the file ends before", read)});
      return;
    }
    size_t end = read.num_bytes;
    if (drawn.is_short && end > 1) end = 1 + random_.Below(end - 1);
    if (end > drawn.num_got) {
      std::memcpy(read.to + drawn.num_got,
                  file.data() + read.offset + drawn.num_got,
                  end - drawn.num_got);
    }
    drawn.num_got = end;
    if (end < read.num_bytes) {
      drawn.is_short = false;
      DrawTime(drawn);
      drawn_.push_back(drawn);
    } else if (drawn.fails) {
      if (end > 0) std::memset(read.to, kNotThereYet, end);
      done_.Push({read.tag, Error(std::generic_category().message(EIO), read)});
    } else {
      done_.Push({read.tag, {}});
    }
  }

  static Status Error(std::string_view why, const Read& read) {
    return Fail(ErrorCode::kIo, "fake file {}: cannot read {} bytes at {}: {}",
                read.file_idx, read.num_bytes, read.offset, why);
  }

  const std::vector<std::span<const std::byte>> files_;
  const FakeOptions options_;
  mutable std::mutex mutex_;
  Random random_;
  uint64_t now_ = 0;  // Reap calls
  uint64_t num_submitted_ = 0;
  uint64_t num_bounced_ = 0;
  std::vector<Drawn> drawn_;
  std::vector<Drawn> due_;  // of the call; a member for its memory
  DoneQueue done_;
};

}  // namespace

std::unique_ptr<BlockReader> MakeFakeReader(
    std::vector<std::span<const std::byte>> files, const FakeOptions& options) {
  TC_CHECK(options.alignment > 0);
  return std::make_unique<FakeReader>(std::move(files), options);
}

}  // namespace thermocline::storage
