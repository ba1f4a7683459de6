#include "os/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>

namespace thermocline::os {

Result<std::optional<FolderLock>> FolderLock::Take(const std::string& path) {
  // Whoever had it may have deleted it before it was opened, or before it was
  // locked: then others lock the next one of that name. So often in a row only
  // where nothing can be opened, as behind a link that leads nowhere.
  constexpr int kMaxTries = 100;
  for (int i = 0; i < kMaxTries; ++i) {
    if (mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) {
      return tl::unexpected(FileError(path, "cannot make this folder", errno));
    }
    UniqueFd folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder && errno == ENOENT) continue;
    if (!folder) {
      return tl::unexpected(FileError(path, "cannot open this folder", errno));
    }
    if (flock(folder.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      return std::nullopt;
    }
    FolderLock lock(std::move(folder));
    if (lock.IsStillAt(path)) return lock;
  }
  return tl::unexpected(FileError(path, "cannot open this folder", ENOENT));
}

bool FolderLock::IsStillAt(const std::string& path) const {
  struct stat ours;
  struct stat there;
  return fstat(folder_.get(), &ours) == 0 && stat(path.c_str(), &there) == 0 &&
         ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

}  // namespace thermocline::os
