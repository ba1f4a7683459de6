// What `git clone` leaves in the place of a large file where Git LFS is
// missing.
#ifndef THERMOCLINE_IMPORT_LFS_POINTER_H_
#define THERMOCLINE_IMPORT_LFS_POINTER_H_

#include <string>
#include <string_view>

#include "base/status.h"

namespace thermocline::importer {

// kCorrupt, naming the path and what helps, if `bytes` are a pointer of Git LFS
// instead of the file.
Status CheckDownloaded(std::string_view bytes, const std::string& path);

}  // namespace thermocline::importer

#endif  // THERMOCLINE_IMPORT_LFS_POINTER_H_
