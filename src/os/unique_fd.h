// An open file descriptor and the wording of what the system says about files.
#ifndef THERMOCLINE_OS_UNIQUE_FD_H_
#define THERMOCLINE_OS_UNIQUE_FD_H_

#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace thermocline::os {

// Owns a descriptor; -1 is none. Move-only.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd() { (void)Close(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  // 0, or errno: what a delayed write ran into.
  int Close();

 private:
  int fd_ = -1;
};

// "PATH: ACTION: reason". kNotFound when a part of the path is missing.
Error FileError(const std::string& path, std::string_view action,
                int error_number);

// Opens for reading, close-on-exec. FileError's codes, naming the path; kIo: a
// folder; kNotFound, without a name: one with a zero byte in it.
// kWaitForWriter: a named pipe is opened once something writes to it;
// kNoWait: at once, so that the caller can see what it is.
enum class PipePolicy { kWaitForWriter, kNoWait };
Result<UniqueFd> OpenForReading(const std::string& path, PipePolicy policy);

}  // namespace thermocline::os

#endif  // THERMOCLINE_OS_UNIQUE_FD_H_
