// Reading whole files, mapping them, and writing them whole or not at all.
#ifndef THERMOCLINE_OS_FILE_H_
#define THERMOCLINE_OS_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "base/status.h"

namespace thermocline::os {

// The whole file, pipes and /dev/stdin too. kNotFound, kIo (a folder, no
// permission), kResourceExhausted past max_bytes or the memory there is; all
// name the path, but for one that no file can have (a zero byte in it).
Result<std::string> ReadFile(const std::string& path,
                             uint64_t max_bytes = uint64_t{4} << 30);

// Whether a folder has that name: a link that leads nowhere counts, so that
// reading it fails, and what it was to be is not taken for absent.
bool HasEntry(const std::string& path);

// Which file has a path, and as of when: what has another device or inode took
// its place, what has another size or time was written to.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t num_bytes = 0;
  int64_t changed_s = 0, changed_ns = 0;

  bool IsSameFile(const FileIdentity& other) const {
    return device == other.device && inode == other.inode;
  }
  bool operator==(const FileIdentity&) const = default;
};
// kIo, naming `path`, which is what is open there.
Result<FileIdentity> IdentityOf(int descriptor, const std::string& path);

// A regular file mapped read-only and shared. Move-only.
// While it lives the mapping is listed for FindMappedFile. A file that shrinks
// meanwhile makes reads past its end raise SIGBUS: the program decides what
// to do then.
class MappedFile {
 public:
  MappedFile() = default;
  // kNotFound, kIo (folder, pipe, permission), kResourceExhausted past 4096
  // mappings at once; an empty file maps to 0 bytes. Never waits for the other
  // end of a pipe.
  static Result<MappedFile> Open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  // When it was mapped.
  const FileIdentity& identity() const { return identity_; }

  // Reads the whole file into `to`, without its mapping: nothing raises SIGBUS.
  // Requires to.size() == bytes().size(). kNotFound: nothing has the path any
  // more; kIo: it cannot be read, ends early, or is another file by now; names
  // the path. Takes as long as reading takes; progress counts bytes.
  Status ReadInto(std::span<std::byte> to,
                  const ProgressFn& progress = {}) const;
  // The same of to.size() bytes from `offset`. Requires that they lie in the
  // file.
  Status ReadRange(uint64_t offset, std::span<std::byte> to,
                   const ProgressFn& progress = {}) const;

 private:
  std::string path_;
  std::span<const std::byte> bytes_;
  int slot_ = -1;  // in the list of mappings; -1 if none
  FileIdentity identity_;
};

// The path of the mapped file that holds `address`, else null. Async-signal-
// safe; the pointer is good while that MappedFile lives.
const char* FindMappedFile(const void* address);

// A file that is written to where it lies (cp, rsync --inplace) changes under
// whoever has it mapped. Seen by its size and the time of its last change; one
// that a new file takes the place of, or that is deleted, stays as it was.
// kIo, naming the first: one that is mapped now has changed since it was
// mapped.
Status CheckMappedFiles();

// The paths of files, mapped now or before, that had changed when their mapping
// ended or have by now, each once; none of them again at the next call.
std::vector<std::string> TakeChangedFiles();

// "PATH: was replaced by another file after it was opened ...".
std::string DescribeReplacement(const std::string& path);

// "PATH: was changed while it was in use ...".
std::string DescribeChange(const std::string& path);

// Where a chain of symbolic links ends, whether or not something is there: what
// AtomicFile writes for that name. Links among its folders stay as they are.
// kIo: a link that cannot be read, or links without an end.
Result<std::string> FollowLinks(const std::string& path);

// Whether `path` is the file, pipe or device that standard output goes to, by
// whatever name.
bool IsStandardOutput(const std::string& path);

// Writes a file that appears under its name at Commit, whole or not at all.
// Where the name is a device, pipe or other thing that is not a regular file
// (-o /dev/null), writes go straight to it, and so they do where it is what
// standard output goes to (-o /dev/stdout >> log.txt): behind what is there. A
// symbolic link keeps pointing: its target is replaced, and its permissions
// stay; new files follow the umask.
// Until Commit the file has no name where the system can do that, so that
// nothing is left of a killed process; elsewhere, and at Commit until the
// rename, it is a hidden temporary beside the target, which destruction without
// Commit removes.
// Threads  one caller at a time.
class AtomicFile {
 public:
  // kInvalidArgument: a name that no file can have. kNotFound, kIo: a folder
  // that is missing or takes no files, or a file that may not be replaced.
  static Result<std::unique_ptr<AtomicFile>> Create(const std::string& path);
  ~AtomicFile();

  // kIo names path and cause; after it Write and Commit give the same again.
  // Bytes are gathered: a full disk may show later, at Commit at the latest.
  Status Write(std::span<const std::byte> bytes);
  Status Write(std::string_view text);
  // Flushes, syncs, renames; at most once, and nothing is written after it.
  // kIo, or kNotFound where the folder is gone: nothing has appeared.
  Status Commit();

  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

 private:
  struct State;
  explicit AtomicFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Whether a file of this name, without its folder, is what AtomicFile leaves
// where the process is killed in the middle of it.
bool IsAtomicTemporary(std::string_view name);

}  // namespace thermocline::os

#endif  // THERMOCLINE_OS_FILE_H_
