// Folders that one process at a time works in.
#ifndef THERMOCLINE_OS_FOLDER_LOCK_H_
#define THERMOCLINE_OS_FOLDER_LOCK_H_

#include <optional>
#include <string>

#include "base/status.h"
#include "os/unique_fd.h"

namespace thermocline::os {

// Locks a folder until the descriptor is closed, by the process's end if not
// before; nullopt: somebody else has locked it, in this process or another one.
// Makes no file: the lock is the folder's own (flock), whose name may go and
// come meanwhile. A file system that cannot lock folders (NFS) gives every
// asker the lock. kNotFound, kIo: the folder cannot be opened.
Result<std::optional<UniqueFd>> LockFolder(const std::string& path);

}  // namespace thermocline::os

#endif  // THERMOCLINE_OS_FOLDER_LOCK_H_
