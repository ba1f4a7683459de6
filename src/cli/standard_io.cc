#include "cli/standard_io.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <new>
#include <system_error>

#include "base/units.h"
#include "cli/signals.h"
#include "os/file.h"
#include "text/utf8.h"

namespace thermocline::cli {
namespace {

std::string ErrnoText(int error) {
  return std::generic_category().message(error);
}

// Blocks until `fd` takes bytes again: somebody may have set O_NONBLOCK on the
// terminal or pipe that we share.
void WaitFor(int fd, short events) {
  pollfd request = {.fd = fd, .events = events, .revents = 0};
  ::poll(&request, 1, -1);
}

// Returns 0 or the errno that stopped it.
int WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t num_written = ::write(fd, text.data(), text.size());
    if (num_written >= 0) {
      text.remove_prefix(static_cast<size_t>(num_written));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      WaitFor(fd, POLLOUT);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

// Appends all of it to `text`, whatever memory that takes.
Status ReadAllStdin(size_t max_bytes, std::string& text) {
  std::array<char, 1 << 16> buffer;
  while (true) {
    const ssize_t num_read = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (num_read == 0) return {};
    if (num_read > 0) {
      text.append(buffer.data(), static_cast<size_t>(num_read));
      if (text.size() <= max_bytes) continue;
      return Fail(ErrorCode::kResourceExhausted,
                  "standard input: has more than {}, the most that is read "
                  "here",
                  FormatBytes(max_bytes));
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      WaitFor(STDIN_FILENO, POLLIN);
    } else if (errno != EINTR) {
      return Fail(ErrorCode::kIo, "cannot read standard input: {}",
                  ErrnoText(errno));
    }
  }
}

}  // namespace

void EnsureStandardStreams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    // A folder takes no bytes, so that an answer nobody can get is an error and
    // not lost without a word. Errors have no one to go to.
    const bool answers = fd == STDOUT_FILENO;
    // open() gives the lowest free number: this one.
    if (::open(answers ? "/" : "/dev/null", answers ? O_RDONLY : O_RDWR) !=
        fd) {
      return;
    }
  }
}

bool StdinIsTerminal() { return ::isatty(STDIN_FILENO) == 1; }
bool StdoutIsTerminal() { return ::isatty(STDOUT_FILENO) == 1; }
bool StderrIsTerminal() { return ::isatty(STDERR_FILENO) == 1; }

bool StdoutIsStderr() {
  struct stat out = {}, error = {};
  return ::fstat(STDOUT_FILENO, &out) == 0 &&
         ::fstat(STDERR_FILENO, &error) == 0 && out.st_dev == error.st_dev &&
         out.st_ino == error.st_ino;
}

Status WriteStdout(std::string_view text) {
  const int error = WriteAll(STDOUT_FILENO, text);
  if (error == 0) return {};
  if (error == EPIPE) {
    return Fail(ErrorCode::kCancelled, "standard output was closed");
  }
  return Fail(ErrorCode::kIo, "cannot write standard output: {}",
              error == EBADF ? "it is closed" : ErrnoText(error));
}

void WriteStderr(std::string_view text) { WriteAll(STDERR_FILENO, text); }

Result<std::string> ReadStdin(size_t max_bytes) {
  ExitOnInterrupt exit_on_interrupt;
  std::string text;
  try {
    TC_RETURN_IF_ERROR(ReadAllStdin(max_bytes, text));
  } catch (const std::bad_alloc&) {
    return Fail(ErrorCode::kResourceExhausted,
                "standard input: its first {} are too much for the memory that "
                "can be had",
                FormatBytes(text.size()));
  }
  return text;
}

bool IsStdin(std::string_view path) {
  return path == "-" || path == "/dev/stdin";
}

std::string InputName(const std::string& path) {
  return IsStdin(path) ? "standard input" : path;
}

std::string InputFileName(const std::string& path) {
  return std::filesystem::path(InputName(path)).filename().string();
}

Result<std::string> ReadBytes(const std::string& path) {
  if (IsStdin(path)) return ReadStdin();
  ExitOnInterrupt exit_on_interrupt;  // a pipe may have no writer
  return os::ReadFile(path, text::kMaxTextBytes);
}

Result<std::string> ReadText(const std::string& path) {
  TC_ASSIGN_OR_RETURN(std::string text, ReadBytes(path));
  text.erase(0, text.size() - text::WithoutByteOrderMark(text).size());
  return text;
}

Result<LongText> LongText::Open(const std::string& path) {
  LongText out;
  std::error_code none;
  if (!IsStdin(path) && std::filesystem::is_regular_file(path, none)) {
    TC_ASSIGN_OR_RETURN(out.file_, os::MappedFile::Open(path));
  } else {
    TC_ASSIGN_OR_RETURN(out.read_, ReadText(path));
  }
  return out;
}

std::string_view LongText::text() const {
  if (!file_) return read_;
  return text::WithoutByteOrderMark(
      {reinterpret_cast<const char*>(file_->bytes().data()),
       file_->bytes().size()});
}

}  // namespace thermocline::cli
