// A file to measure storage with.

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include "base/random.h"
#include "base/units.h"
#include "probe/storage_rates.h"

namespace thermocline::probe {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

Status CheckFree(const std::string& folder, uint64_t num_bytes) {
  struct statvfs info = {};
  if (statvfs(folder.c_str(), &info) != 0) {
    return tl::unexpected(os::FileError(folder, "cannot look at", errno));
  }
  const uint64_t free_bytes = uint64_t{info.f_bavail} * info.f_frsize;
  if (free_bytes >= kSpareBytes && num_bytes <= free_bytes - kSpareBytes) {
    return {};
  }
  return Fail(ErrorCode::kResourceExhausted,
              "{}: {} are free there, and a file of {} is to leave {}", folder,
              FormatBytes(free_bytes), FormatBytes(num_bytes),
              FormatBytes(kSpareBytes));
}

Result<os::UniqueFd> MakeUnnamed(const std::string& folder) {
  const int fd =
      open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (fd >= 0) return os::UniqueFd(fd);
  // Not every file system has files without a name.
  std::string name = folder + "/thermocline-bench-XXXXXX";
  os::UniqueFd named(mkostemp(name.data(), O_CLOEXEC));
  if (!named) {
    return tl::unexpected(
        os::FileError(folder, "cannot make a file in", errno));
  }
  unlink(name.c_str());
  return named;
}

Status WriteAll(int fd, const std::string& folder, const char* bytes,
                size_t num_bytes) {
  while (num_bytes > 0) {
    const ssize_t num = write(fd, bytes, num_bytes);
    if (num < 0 && errno == EINTR) continue;
    if (num < 0) {
      return tl::unexpected(
          os::FileError(folder, "cannot fill a file in", errno));
    }
    bytes += num;
    num_bytes -= static_cast<size_t>(num);
  }
  return {};
}

}  // namespace

Result<TestFile> MakeTestFile(const std::string& folder, uint64_t num_bytes,
                              uint64_t seed, const ProgressFn& progress) {
  TC_RETURN_IF_ERROR(CheckFree(folder, num_bytes));
  TestFile file;
  TC_ASSIGN_OR_RETURN(file.fd, MakeUnnamed(folder));
  file.path = fmt::format("/proc/self/fd/{}", file.fd.get());
  Random random(seed);
  std::vector<uint64_t> piece(kPieceBytes / sizeof(uint64_t));
  for (uint64_t done = 0; done < num_bytes;) {
    ReportProgress(progress, "writing", done, num_bytes);
    for (uint64_t& word : piece) word = random.Next();
    const size_t num = std::min<uint64_t>(kPieceBytes, num_bytes - done);
    TC_RETURN_IF_ERROR(WriteAll(file.fd.get(), folder,
                                reinterpret_cast<const char*>(piece.data()),
                                num));
    done += num;
  }
  // Pages that are still to be written cannot be dropped from the cache.
  if (fsync(file.fd.get()) != 0) {
    return tl::unexpected(
        os::FileError(folder, "cannot fill a file in", errno));
  }
  return file;
}

}  // namespace thermocline::probe
