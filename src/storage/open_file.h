// A file of a reader: how it wants to be read, and whether it is still what it
// was.
#ifndef THERMOCLINE_STORAGE_OPEN_FILE_H_
#define THERMOCLINE_STORAGE_OPEN_FILE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "os/file.h"
#include "os/unique_fd.h"
#include "storage/block_reader.h"

namespace thermocline::storage {

struct OpenFile {
  std::string path;
  os::UniqueFd fd;
  uint64_t num_bytes = 0;
  // What the kernel wants multiples of: offsets and sizes, and addresses.
  // Powers of two; 1 and 1: it is read through the page cache.
  size_t offset_alignment = 1;
  size_t memory_alignment = 1;
  // When it was opened; of a block device nothing is asked.
  os::FileIdentity identity;
  bool is_device = false;

  bool is_direct() const { return offset_alignment > 1; }
};

// `direct`: past the page cache, if the file system can. kNotFound, kIo: it
// cannot be opened, or is neither a file nor a block device; names the path.
Result<OpenFile> OpenForReads(const std::string& path, bool direct);
// The first error, if there is one.
Result<std::vector<OpenFile>> OpenForReads(
    const std::vector<std::string>& paths, bool direct);

// kIo: its size or the time of its last change are others than when it was
// opened (one that a new file takes the place of stays as it was).
Status CheckUnchanged(const OpenFile& file);
Status CheckUnchanged(const std::vector<OpenFile>& files);

// What it was when it was opened; nothing of a device.
inline std::optional<os::FileIdentity> IdentityOf(const OpenFile& file) {
  if (file.is_device) return std::nullopt;
  return file.identity;
}

// What offset, size and address best are multiples of, for all files.
size_t AlignmentOf(const std::vector<OpenFile>& files);

// A read that gave errno; a read whose bytes are not there. Each says that the
// file has changed, where it has.
Status FailedRead(const OpenFile& file, const Read& read, int error_number);
Status EndedRead(const OpenFile& file, const Read& read);

// Ok: `read` lies in the file, as long as that was when it was opened.
Status CheckRange(const OpenFile& file, const Read& read);

}  // namespace thermocline::storage

#endif  // THERMOCLINE_STORAGE_OPEN_FILE_H_
