#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <new>
#include <system_error>

#include "base/units.h"
#include "os/file.h"
#include "os/unique_fd.h"

namespace thermocline::os {
namespace {

constexpr uint64_t kFirstRead = 64 * kKiB;

Error TooLarge(const std::string& path, uint64_t max_bytes) {
  return {ErrorCode::kResourceExhausted,
          fmt::format("{}: has more than {}, the most that is read here", path,
                      FormatBytes(max_bytes))};
}

// Reads to the end. One byte more than announced is asked for, so that the end
// of an ordinary file is met without growing the buffer.
Result<std::string> ReadAll(const UniqueFd& file, const std::string& path,
                            uint64_t announced_bytes, uint64_t max_bytes) {
  std::string text;
  uint64_t num_read = 0;
  text.resize(std::max(kFirstRead, announced_bytes + 1));
  while (true) {
    if (num_read == text.size()) text.resize(2 * text.size());
    const ssize_t count =
        read(file.get(), text.data() + num_read, text.size() - num_read);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return tl::unexpected(FileError(path, "cannot read", errno));
    if (count == 0) break;
    num_read += static_cast<uint64_t>(count);
    if (num_read > max_bytes) return tl::unexpected(TooLarge(path, max_bytes));
  }
  text.resize(num_read);
  return text;
}

}  // namespace

bool HasEntry(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(
      std::filesystem::symlink_status(path, ignored));
}

Result<std::string> ReadFile(const std::string& path, uint64_t max_bytes) {
  TC_ASSIGN_OR_RETURN(const UniqueFd file,
                      OpenForReading(path, PipePolicy::kWaitForWriter));
  struct stat info;
  if (fstat(file.get(), &info) != 0) {
    return tl::unexpected(FileError(path, "cannot read", errno));
  }
  uint64_t announced_bytes = 0;
  if (S_ISREG(info.st_mode)) {
    announced_bytes = static_cast<uint64_t>(info.st_size);
  }
  if (announced_bytes > max_bytes) {
    return tl::unexpected(TooLarge(path, max_bytes));
  }
  try {
    return ReadAll(file, path, announced_bytes, max_bytes);
  } catch (const std::bad_alloc&) {
    return Fail(ErrorCode::kResourceExhausted,
                "{}: too large for the memory that can be had", path);
  }
}

}  // namespace thermocline::os
