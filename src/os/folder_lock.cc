#include "os/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

namespace thermocline::os {

Result<std::optional<UniqueFd>> LockFolder(const std::string& path) {
  UniqueFd folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) {
    return tl::unexpected(FileError(path, "cannot open this folder", errno));
  }
  if (flock(folder.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return std::nullopt;
  }
  return folder;
}

}  // namespace thermocline::os
