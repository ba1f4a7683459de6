#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "base/check.h"
#include "os/file.h"
#include "os/memory.h"
#include "os/unique_fd.h"

namespace thermocline::os {
namespace {

// One mapping, as a signal handler can read it at any moment: the path is set
// before the range and cleared after it. The copy of the path stays where it is
// when the MappedFile moves.
struct Slot {
  std::atomic<bool> taken{false};
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};
  std::atomic<char*> path{nullptr};
};
static_assert(std::atomic<uintptr_t>::is_always_lock_free);

constexpr int kMaxMappings = 4096;
constexpr size_t kReadBytes = size_t{16} << 20;  // between two reports
constinit std::array<Slot, kMaxMappings> slots;

// The slot's index, or -1 when all are taken. Where there is no memory for the
// path, that stays null: the mapping works, but FindMappedFile does not know
// it.
int TakeSlot(const std::string& path, std::span<const std::byte> bytes) {
  for (int i = 0; i < kMaxMappings; ++i) {
    Slot& slot = slots[static_cast<size_t>(i)];
    if (slot.taken.load(std::memory_order_relaxed)) continue;
    if (slot.taken.exchange(true)) continue;
    slot.path.store(strdup(path.c_str()));
    const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
    slot.end.store(begin + bytes.size());
    slot.begin.store(begin);
    return i;
  }
  return -1;
}

void FreeSlot(int index) {
  Slot& slot = slots[static_cast<size_t>(index)];
  slot.end.store(0);
  slot.begin.store(0);
  std::free(slot.path.exchange(nullptr));
  slot.taken.store(false);
}

// What a file was when it was mapped.
struct Identity {
  std::string path;
  struct stat info;

  bool HasChanged() const {
    struct stat now;
    if (stat(path.c_str(), &now) != 0 || now.st_dev != info.st_dev ||
        now.st_ino != info.st_ino) {
      return false;  // what is mapped is out of everybody's reach
    }
    return now.st_size != info.st_size ||
           now.st_mtim.tv_sec != info.st_mtim.tv_sec ||
           now.st_mtim.tv_nsec != info.st_mtim.tv_nsec;
  }
};

// Of all mappings, by their slots.
class Watch {
 public:
  void Add(int slot, Identity identity) {
    const std::lock_guard lock(mutex_);
    mapped_.insert_or_assign(slot, std::move(identity));
  }
  void Remove(int slot) {
    const std::lock_guard lock(mutex_);
    const auto ended = mapped_.extract(slot);
    if (!ended.empty() && ended.mapped().HasChanged()) {
      changed_.insert(ended.mapped().path);
    }
  }
  Status Check() {
    const std::lock_guard lock(mutex_);
    for (const auto& [slot, identity] : mapped_) {
      if (!identity.HasChanged()) continue;
      return Fail(ErrorCode::kIo, "{}", DescribeChange(identity.path));
    }
    return {};
  }
  std::vector<std::string> Take() {
    const std::lock_guard lock(mutex_);
    for (auto& [slot, identity] : mapped_) {
      if (!identity.HasChanged()) continue;
      changed_.insert(identity.path);
      stat(identity.path.c_str(), &identity.info);
    }
    const auto taken = std::exchange(changed_, {});
    return {taken.begin(), taken.end()};
  }

 private:
  std::mutex mutex_;
  std::map<int, Identity> mapped_;
  std::set<std::string> changed_;
};

// Never destroyed: mappings may end after main.
Watch& TheWatch() {
  static Watch& watch = *new Watch;
  return watch;
}

FileIdentity IdentityFrom(const struct stat& info) {
  return {.device = info.st_dev,
          .inode = info.st_ino,
          .num_bytes = static_cast<uint64_t>(info.st_size),
          .changed_s = info.st_mtim.tv_sec,
          .changed_ns = info.st_mtim.tv_nsec};
}

}  // namespace

Result<FileIdentity> IdentityOf(int descriptor, const std::string& path) {
  struct stat info;
  if (fstat(descriptor, &info) == 0) return IdentityFrom(info);
  return tl::unexpected(FileError(path, "cannot look at", errno));
}

Result<MappedFile> MappedFile::Open(const std::string& path) {
  TC_ASSIGN_OR_RETURN(const UniqueFd file,
                      OpenForReading(path, PipePolicy::kNoWait));
  struct stat info;
  if (fstat(file.get(), &info) != 0) {
    return tl::unexpected(FileError(path, "cannot map", errno));
  }
  if (!S_ISREG(info.st_mode)) {
    return Fail(ErrorCode::kIo,
                "{}: is a pipe or device; only ordinary files can be mapped",
                path);
  }
  MappedFile mapped;
  mapped.path_ = path;
  mapped.identity_ = IdentityFrom(info);
  if (info.st_size == 0) return mapped;
  const size_t size = static_cast<size_t>(info.st_size);
  void* memory = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) {
    return tl::unexpected(FileError(path, "cannot map", errno));
  }
  // Advice, for file systems whose page cache has huge pages: where the file is
  // not cached yet, loops over it miss the TLB less. Others refuse it.
  if (size >= kHugePageBytes) madvise(memory, size, MADV_HUGEPAGE);
  mapped.bytes_ = {static_cast<const std::byte*>(memory), size};
  mapped.slot_ = TakeSlot(path, mapped.bytes_);
  if (mapped.slot_ < 0) {
    return Fail(ErrorCode::kResourceExhausted,
                "{}: cannot map: {} files are mapped already", path,
                kMaxMappings);
  }
  TheWatch().Add(mapped.slot_, {path, info});
  return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept {
  *this = std::move(other);
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  std::swap(slot_, other.slot_);
  std::swap(identity_, other.identity_);
  return *this;
}

MappedFile::~MappedFile() {
  if (slot_ >= 0) {
    TheWatch().Remove(slot_);
    FreeSlot(slot_);
  }
  if (!bytes_.empty()) {
    munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
}

Status MappedFile::ReadInto(std::span<std::byte> to,
                            const ProgressFn& progress) const {
  TC_CHECK(to.size() == bytes_.size());
  return ReadRange(0, to, progress);
}

Status MappedFile::ReadRange(uint64_t offset, std::span<std::byte> to,
                             const ProgressFn& progress) const {
  TC_CHECK(offset <= bytes_.size() && to.size() <= bytes_.size() - offset);
  TC_ASSIGN_OR_RETURN(const UniqueFd file,
                      OpenForReading(path_, PipePolicy::kNoWait));
  struct stat info;
  if (fstat(file.get(), &info) != 0) {
    return tl::unexpected(FileError(path_, "cannot read", errno));
  }
  if (!IdentityFrom(info).IsSameFile(identity_)) {
    return Fail(ErrorCode::kIo, "{}", DescribeReplacement(path_));
  }
  for (size_t num_read = 0; num_read < to.size();) {
    const ssize_t count = pread(file.get(), to.data() + num_read,
                                std::min(kReadBytes, to.size() - num_read),
                                static_cast<off_t>(offset + num_read));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return tl::unexpected(FileError(path_, "cannot read", errno));
    }
    if (count == 0) {
      return Fail(ErrorCode::kIo,
                  "{}: ended at byte {} of {} while it was being read "
                  "(truncated meanwhile?)",
                  path_, offset + num_read, bytes_.size());
    }
    num_read += static_cast<size_t>(count);
    ReportProgress(progress, "reading weights", num_read, to.size());
  }
  return {};
}

Status CheckMappedFiles() { return TheWatch().Check(); }

std::vector<std::string> TakeChangedFiles() { return TheWatch().Take(); }

std::string DescribeReplacement(const std::string& path) {
  return fmt::format(
      "{}: was replaced by another file after it was opened: start again to "
      "use that one",
      path);
}

std::string DescribeChange(const std::string& path) {
  return fmt::format(
      "{}: was changed while it was in use: what came of it is a mixture of "
      "two files. Put a new file in its place (mv) instead of writing over it, "
      "and start again",
      path);
}

const char* FindMappedFile(const void* address) {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  for (const Slot& slot : slots) {
    const uintptr_t begin = slot.begin.load();
    if (begin != 0 && begin <= wanted && wanted < slot.end.load()) {
      return slot.path.load();
    }
  }
  return nullptr;
}

}  // namespace thermocline::os
