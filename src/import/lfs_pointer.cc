#include "import/lfs_pointer.h"

namespace thermocline::importer {

Status CheckDownloaded(std::string_view bytes, const std::string& path) {
  if (!bytes.starts_with("version https://git-lfs.github.com/spec/")) return {};
  return Fail(ErrorCode::kCorrupt,
              "{}: is a Git LFS pointer; the file itself was never downloaded "
              "('git lfs pull' fetches it)",
              path);
}

}  // namespace thermocline::importer
