#include "os/unique_fd.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace thermocline::os {

int UniqueFd::Close() {
  const int fd = std::exchange(fd_, -1);
  if (fd < 0) return 0;
  // The descriptor is gone even when close is interrupted.
  return close(fd) == 0 || errno == EINTR ? 0 : errno;
}

Error FileError(const std::string& path, std::string_view action,
                int error_number) {
  const bool missing = error_number == ENOENT || error_number == ENOTDIR;
  return {missing ? ErrorCode::kNotFound : ErrorCode::kIo,
          fmt::format("{}: {}: {}", path, action,
                      std::generic_category().message(error_number))};
}

Result<UniqueFd> OpenForReading(const std::string& path, PipePolicy policy) {
  if (path.find('\0') != std::string::npos) {
    return Fail(ErrorCode::kNotFound, "a file name contains a zero byte");
  }
  const int wait = policy == PipePolicy::kNoWait ? O_NONBLOCK : 0;
  int fd = -1;
  do {
    fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | wait);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return tl::unexpected(FileError(path, "cannot open", errno));
  UniqueFd file(fd);
  struct stat info;
  if (fstat(fd, &info) != 0) {
    return tl::unexpected(FileError(path, "cannot open", errno));
  }
  if (S_ISDIR(info.st_mode)) {
    return Fail(ErrorCode::kIo, "{}: is a folder, not a file", path);
  }
  return file;
}

}  // namespace thermocline::os
