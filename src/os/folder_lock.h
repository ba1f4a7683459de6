// Folders that one process at a time works in.
#ifndef THERMOCLINE_OS_FOLDER_LOCK_H_
#define THERMOCLINE_OS_FOLDER_LOCK_H_

#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "os/unique_fd.h"

namespace thermocline::os {

// Holds a folder locked until it is destroyed, by the process's end if not
// before. Makes no file: the lock is the folder's own (flock), whose name may
// come to mean another one. A file system that cannot lock folders (NFS) gives
// every asker the lock. Move-only.
class FolderLock {
 public:
  // Locks the folder that `path` names, which is made if there is none;
  // nullopt: somebody else has locked it, in this process or another one. On
  // return the name still means the folder that is locked. kNotFound, kIo: it
  // cannot be made or opened.
  static Result<std::optional<FolderLock>> Take(const std::string& path);

  // Whether `path` names the folder that is locked: not if that was deleted or
  // renamed meanwhile, and maybe made anew. Safe from any thread.
  bool IsStillAt(const std::string& path) const;

 private:
  explicit FolderLock(UniqueFd folder) : folder_(std::move(folder)) {}

  UniqueFd folder_;
};

}  // namespace thermocline::os

#endif  // THERMOCLINE_OS_FOLDER_LOCK_H_
