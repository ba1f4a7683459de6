#include "storage/open_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <optional>
#include <utility>

#include "os/file.h"
#include "os/memory.h"

namespace thermocline::storage {
namespace {

// What is asked for where the kernel does not tell what it wants: no device of
// today wants more.
constexpr size_t kUsualAlignment = 4096;

struct Alignment {
  size_t offset, memory;
};

// nullopt: the kernel does not tell (before Linux 6.1, or this file system).
std::optional<Alignment> AskAlignment(int fd) {
#ifdef STATX_DIOALIGN
  struct statx info = {};
  if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) != 0 ||
      (info.stx_mask & STATX_DIOALIGN) == 0) {
    return std::nullopt;
  }
  return Alignment{info.stx_dio_offset_align, info.stx_dio_mem_align};
#else
  (void)fd;
  return std::nullopt;
#endif
}

// Memory that takes O_DIRECT for form's sake: nothing is gained there.
bool IsInMemory(int fd) {
  struct statfs info = {};
  if (fstatfs(fd, &info) != 0) return false;
  return info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC;
}

// One read with that alignment, since file systems may take the flag and refuse
// the reads.
bool ReadsDirect(int fd, uint64_t num_bytes, size_t alignment) {
  if (num_bytes == 0) return true;
  auto block = os::AlignedBuffer::Allocate(2 * alignment);
  if (!block.has_value()) return false;
  const auto address = reinterpret_cast<uintptr_t>(block->data());
  const size_t to_boundary = (alignment - address % alignment) % alignment;
  return pread(fd, block->data() + to_boundary, alignment, 0) >= 0;
}

void TurnDirect(OpenFile& file) {
  if (IsInMemory(file.fd.get())) return;
  if (fcntl(file.fd.get(), F_SETFL, O_DIRECT) != 0) return;
  const Alignment alignment =
      AskAlignment(file.fd.get())
          .value_or(Alignment{kUsualAlignment, kUsualAlignment});
  // Bounce buffers are aligned to pages (read_steps.h).
  const bool is_good =
      std::has_single_bit(alignment.offset) &&
      std::has_single_bit(alignment.memory) &&
      std::max(alignment.offset, alignment.memory) <= kUsualAlignment &&
      alignment.offset > 1;
  if (!is_good || !ReadsDirect(file.fd.get(), file.num_bytes,
                               std::max(alignment.offset, alignment.memory))) {
    fcntl(file.fd.get(), F_SETFL, 0);
    return;
  }
  file.offset_alignment = alignment.offset;
  file.memory_alignment = alignment.memory;
}

std::string WhereOf(const Read& read) {
  return fmt::format("{} bytes at {}", read.num_bytes, read.offset);
}

}  // namespace

Result<OpenFile> OpenForReads(const std::string& path, bool direct) {
  OpenFile file;
  file.path = path;
  TC_ASSIGN_OR_RETURN(file.fd,
                      os::OpenForReading(path, os::PipePolicy::kNoWait));
  const int fd = file.fd.get();
  struct stat info = {};
  if (fstat(fd, &info) != 0) {
    return tl::unexpected(os::FileError(path, "cannot open", errno));
  }
  if (S_ISREG(info.st_mode)) {
    TC_ASSIGN_OR_RETURN(file.identity, os::IdentityOf(fd, path));
    file.num_bytes = file.identity.num_bytes;
  } else if (S_ISBLK(info.st_mode)) {
    const off_t end = lseek(fd, 0, SEEK_END);
    if (end < 0) {
      return tl::unexpected(os::FileError(path, "cannot find its end", errno));
    }
    file.num_bytes = static_cast<uint64_t>(end);
    file.is_device = true;
  } else {
    return Fail(ErrorCode::kIo, "{}: is neither a file nor a block device",
                path);
  }
  // What kNoWait has set makes io_uring give up where it would have to wait.
  fcntl(fd, F_SETFL, 0);
  if (direct) TurnDirect(file);
  return file;
}

Result<std::vector<OpenFile>> OpenForReads(
    const std::vector<std::string>& paths, bool direct) {
  std::vector<OpenFile> files;
  for (const std::string& path : paths) {
    TC_ASSIGN_OR_RETURN(OpenFile file, OpenForReads(path, direct));
    files.push_back(std::move(file));
  }
  return files;
}

Status CheckUnchanged(const OpenFile& file) {
  if (file.is_device) return {};
  TC_ASSIGN_OR_RETURN(const os::FileIdentity now,
                      os::IdentityOf(file.fd.get(), file.path));
  if (now == file.identity) return {};
  return Fail(ErrorCode::kIo, "{}", os::DescribeChange(file.path));
}

Status CheckUnchanged(const std::vector<OpenFile>& files) {
  for (const OpenFile& file : files) TC_RETURN_IF_ERROR(CheckUnchanged(file));
  return {};
}

size_t AlignmentOf(const std::vector<OpenFile>& files) {
  size_t alignment = 1;
  for (const OpenFile& file : files) {
    alignment =
        std::max({alignment, file.offset_alignment, file.memory_alignment});
  }
  return alignment;
}

Status FailedRead(const OpenFile& file, const Read& read, int error_number) {
  TC_RETURN_IF_ERROR(CheckUnchanged(file));
  return tl::unexpected(
      os::FileError(file.path, "cannot read " + WhereOf(read), error_number));
}

Status EndedRead(const OpenFile& file, const Read& read) {
  TC_RETURN_IF_ERROR(CheckUnchanged(file));
  return Fail(ErrorCode::kIo, "{}: ends after {} bytes, and not with {}",
              file.path, file.num_bytes, WhereOf(read));
}

Status CheckRange(const OpenFile& file, const Read& read) {
  if (read.offset <= file.num_bytes &&
      read.num_bytes <= file.num_bytes - read.offset) {
    return {};
  }
  return EndedRead(file, read);
}

}  // namespace thermocline::storage
