#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/check.h"
#include "base/units.h"
#include "os/file.h"
#include "os/unique_fd.h"

namespace thermocline::os {
namespace {

// Linux keeps in one huge page what is written at once, at a multiple of that
// page's size: a model that was just made is then mapped in huge pages.
constexpr size_t kPieceBytes = 2 * kMiB;

int OpenNoInterrupt(const std::string& path, int flags) {
  int fd = -1;
  do {
    fd = open(path.c_str(), flags | O_CLOEXEC, 0666);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

// Folders are synced so that the new name survives a power cut. File systems
// that cannot do that lose nothing but this.
void SyncFolder(const std::filesystem::path& folder) {
  const std::string name = folder.empty() ? "." : folder.string();
  const UniqueFd fd(OpenNoInterrupt(name, O_RDONLY | O_DIRECTORY));
  if (fd) (void)fsync(fd.get());
}

constexpr std::string_view kTemporaryMark = ".tmp-";

// Tries names of temporary files beside `target` until `take` gives 0 for one,
// which goes to `taken`. Else an errno.
int TakeTemporaryName(const std::filesystem::path& target,
                      const std::function<int(const std::string&)>& take,
                      std::string& taken) {
  static std::atomic<uint64_t> num_tried{0};
  constexpr int kMaxTries = 100;         // left over from killed processes
  constexpr size_t kMaxNameBytes = 200;  // names end at 255
  const std::string name = target.filename().string().substr(0, kMaxNameBytes);
  int error = EEXIST;
  for (int i = 0; i < kMaxTries && error == EEXIST; ++i) {
    const std::string candidate =
        target.parent_path() / fmt::format(".{}{}{}-{}", name, kTemporaryMark,
                                           getpid(), num_tried.fetch_add(1));
    error = take(candidate);
    if (error == 0) taken = candidate;
  }
  return error;
}

// Gives a file that has no name one beside `target`. 0, or errno.
int LinkTemporary(const UniqueFd& fd, const std::filesystem::path& target,
                  std::string& taken) {
  const std::string link = fmt::format("/proc/self/fd/{}", fd.get());
  return TakeTemporaryName(
      target,
      [&link](const std::string& name) {
        const int rc = linkat(AT_FDCWD, link.c_str(), AT_FDCWD, name.c_str(),
                              AT_SYMLINK_FOLLOW);
        return rc == 0 ? 0 : errno;
      },
      taken);
}

// A file without a name in the folder of `target`: it is gone with the process,
// however that ends. None where such files cannot be made, or not be named
// afterwards, which another one shows, since each can be named once only.
UniqueFd OpenUnnamed(const std::filesystem::path& target) {
  const std::string folder =
      target.has_parent_path() ? target.parent_path().string() : ".";
  const UniqueFd probe(OpenNoInterrupt(folder, O_TMPFILE | O_WRONLY));
  std::string name;
  if (!probe || LinkTemporary(probe, target, name) != 0) return {};
  (void)unlink(name.c_str());
  return UniqueFd(OpenNoInterrupt(folder, O_TMPFILE | O_WRONLY));
}

}  // namespace

Result<std::string> FollowLinks(const std::string& path) {
  constexpr int kMaxLinks = 40;  // the kernel's own limit
  std::filesystem::path target = path;
  for (int i = 0; i < kMaxLinks; ++i) {
    std::error_code error;
    if (!std::filesystem::is_symlink(target, error)) return target.string();
    const auto next = std::filesystem::read_symlink(target, error);
    if (error) {
      return tl::unexpected(
          FileError(path, "cannot read the link", error.value()));
    }
    target = target.parent_path() / next;  // an absolute `next` replaces it
  }
  return tl::unexpected(FileError(path, "cannot write", ELOOP));
}

bool IsStandardOutput(const std::string& path) {
  struct stat named;
  struct stat output;
  return stat(path.c_str(), &named) == 0 &&
         fstat(STDOUT_FILENO, &output) == 0 && named.st_dev == output.st_dev &&
         named.st_ino == output.st_ino;
}

struct AtomicFile::State {
  std::string path;       // as the caller named it
  std::string target;     // what is replaced; empty: written directly
  std::string temporary;  // empty while the file has no name
  UniqueFd fd;
  std::string buffer;
  Status status;  // what went wrong first: the file lacks bytes from there on
  bool committed = false;

  ~State() { RemoveTemporary(); }

  void RemoveTemporary() {
    if (!temporary.empty()) (void)unlink(temporary.c_str());
    temporary.clear();
  }

  // A new file beside the target: renaming works only within a file system.
  // With `mode` its permissions are those, else the umask's.
  Status OpenTemporary(std::optional<mode_t> mode) {
    fd = OpenUnnamed(target);
    if (!fd) {
      const auto create = [this](const std::string& name) {
        fd = UniqueFd(OpenNoInterrupt(name, O_WRONLY | O_CREAT | O_EXCL));
        return fd ? 0 : errno;
      };
      if (const int error = TakeTemporaryName(target, create, temporary);
          error != 0) {
        return tl::unexpected(
            FileError(path, "cannot create a file in this folder", error));
      }
    }
    // File systems without permissions refuse, and need none.
    if (mode.has_value()) (void)fchmod(fd.get(), *mode);
    return {};
  }

  Status FlushBuffer() {
    if (!status) return status;
    std::string_view bytes = buffer;
    while (!bytes.empty()) {
      const ssize_t count = write(fd.get(), bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) {
        status = tl::unexpected(FileError(path, "cannot write", errno));
        return status;
      }
      bytes.remove_prefix(static_cast<size_t>(count));
    }
    buffer.clear();
    return {};
  }

  Status Publish() {
    TC_RETURN_IF_ERROR(FlushBuffer());
    if (!target.empty()) TC_RETURN_IF_ERROR(SyncAndName());
    if (const int error = fd.Close(); error != 0) {
      return tl::unexpected(FileError(path, "cannot write", error));
    }
    if (target.empty()) return {};
    if (std::rename(temporary.c_str(), target.c_str()) != 0) {
      return tl::unexpected(FileError(path, "cannot put in place", errno));
    }
    temporary.clear();
    SyncFolder(std::filesystem::path(target).parent_path());
    return {};
  }

  Status SyncAndName() {
    if (fsync(fd.get()) != 0) {
      return tl::unexpected(FileError(path, "cannot write", errno));
    }
    if (!temporary.empty()) return {};
    if (const int error = LinkTemporary(fd, target, temporary); error != 0) {
      return tl::unexpected(FileError(path, "cannot put in place", error));
    }
    return {};
  }
};

AtomicFile::AtomicFile(std::unique_ptr<State> state)
    : state_(std::move(state)) {}

AtomicFile::~AtomicFile() = default;

Result<std::unique_ptr<AtomicFile>> AtomicFile::Create(
    const std::string& path) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    return Fail(ErrorCode::kInvalidArgument, "'{}' cannot name an output file",
                path.c_str());
  }
  auto state = std::make_unique<State>();
  state->path = path;
  struct stat info;
  const bool exists = stat(path.c_str(), &info) == 0;
  if ((exists && S_ISDIR(info.st_mode)) || path.back() == '/') {
    return Fail(ErrorCode::kIo, "{}: is a folder, not a file", path);
  }
  if (IsStandardOutput(path)) {
    // Its own descriptor: that knows where the next byte belongs.
    state->fd = UniqueFd(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
    if (!state->fd) {
      return tl::unexpected(FileError(path, "cannot write", errno));
    }
  } else if (exists && !S_ISREG(info.st_mode)) {
    state->fd = UniqueFd(OpenNoInterrupt(path, O_WRONLY));
    if (!state->fd) {
      return tl::unexpected(FileError(path, "cannot write", errno));
    }
  } else {
    if (exists && access(path.c_str(), W_OK) != 0) {
      return tl::unexpected(FileError(path, "cannot replace", errno));
    }
    TC_ASSIGN_OR_RETURN(state->target, FollowLinks(path));
    constexpr mode_t kPermissions = 0777;
    TC_RETURN_IF_ERROR(state->OpenTemporary(
        exists ? std::optional<mode_t>(info.st_mode & kPermissions)
               : std::nullopt));
  }
  return std::unique_ptr<AtomicFile>(new AtomicFile(std::move(state)));
}

Status AtomicFile::Write(std::span<const std::byte> bytes) {
  return Write(std::string_view(reinterpret_cast<const char*>(bytes.data()),
                                bytes.size()));
}

Status AtomicFile::Write(std::string_view text) {
  TC_CHECK(!state_->committed);
  if (!state_->status) return state_->status;
  std::string& buffer = state_->buffer;
  while (!text.empty()) {
    const auto part = text.substr(0, kPieceBytes - buffer.size());
    buffer += part;
    text.remove_prefix(part.size());
    if (buffer.size() == kPieceBytes) TC_RETURN_IF_ERROR(state_->FlushBuffer());
  }
  return {};
}

Status AtomicFile::Commit() {
  TC_CHECK(!state_->committed);
  state_->committed = true;
  Status status = state_->Publish();
  state_->RemoveTemporary();
  return status;
}

bool IsAtomicTemporary(std::string_view name) {
  return name.starts_with('.') &&
         name.find(kTemporaryMark) != std::string_view::npos;
}

}  // namespace thermocline::os
