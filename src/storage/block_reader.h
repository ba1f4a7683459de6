// Asynchronous reads of files past the page cache: bytes, not neurons.
//
// PowerInfer-2 4.4: reads go on while the CPU computes what is there.
#ifndef THERMOCLINE_STORAGE_BLOCK_READER_H_
#define THERMOCLINE_STORAGE_BLOCK_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "os/file.h"

namespace thermocline::storage {

// num_bytes from `offset` of a file to `to`, which stays there until the read
// is reaped. Any offset, size and address: what the device cannot read straight
// to `to` goes by way of the reader's own memory, and is slower. Best are
// multiples of BlockReader::alignment() in all three.
struct Read {
  uint32_t file_idx = 0;  // of the files that the reader was made for
  uint64_t offset = 0;
  size_t num_bytes = 0;
  std::byte* to = nullptr;
  uint64_t tag = 0;  // the caller's, comes back
};

struct Done {
  uint64_t tag = 0;
  // Ok, or kIo naming the file and where: it cannot be read there, it ends
  // before, or it has changed since it was opened.
  Status status;
};

struct ReaderOptions {
  // Reads that the kernel has at once, at most; what is submitted besides waits
  // in a queue of the reader's, which takes any number. 1 to kDepthMax.
  static constexpr size_t kDepthMax = 4096;
  size_t depth = 64;
  // Past the page cache where the file system can (O_DIRECT); false: through
  // it, as where it cannot.
  bool direct = true;
};

// Of the reader's own memory, at most, where reads go by way of it.
inline constexpr uint64_t kMostBounced = uint64_t{8} << 20;

struct ReaderStats {
  uint64_t num_reads = 0;    // reaped
  uint64_t num_bytes = 0;    // asked for
  uint64_t num_bounced = 0;  // that went by way of the reader's memory
  // Calls to the kernel that went to registered memory; a read may take
  // several.
  uint64_t num_registered = 0;
};

// Threads  Submit and Reap from any thread at once; the reader sorts them out.
//          Nobody holds a lock while the kernel reads.
// Order    reads end in any order.
// Errors   each read has its own; a reader with failed reads goes on. What a
//          failed read has written to `to` is nothing to rely on.
// Queue    beyond `depth` it may move on in Submit and Reap alone: whoever
// waits
//          for reads and computes meanwhile reaps now and then.
// Cost     allocates nothing, once it has had as many reads open as it will
// get.
class BlockReader {
 public:
  // Waits for what the kernel still has, and drops the queue: afterwards nobody
  // writes to where a read went.
  virtual ~BlockReader() = default;
  BlockReader(const BlockReader&) = delete;
  BlockReader& operator=(const BlockReader&) = delete;

  // "io_uring", "pread" or "fake".
  virtual std::string_view name() const = 0;
  // What offset, size and address best are multiples of: a power of two, 1
  // where nothing is gained (no O_DIRECT).
  virtual size_t alignment() const = 0;
  // When it was opened.
  virtual uint64_t file_bytes(uint32_t file_idx) const = 0;
  // Likewise; nothing of a device, or of what is no file.
  virtual std::optional<os::FileIdentity> identity(uint32_t file_idx) const = 0;
  // kIo, naming the first: a file has another size, or was written to, since it
  // was opened. One that a new file takes the place of, or that is deleted, is
  // read on as it was. A call to the system for each file; from any thread.
  virtual Status CheckUnchanged() const = 0;
  // "io_uring, O_DIRECT, registered buffers", or in the last one's place
  // "buffers not registered: RLIMIT_MEMLOCK 8.00 MiB".
  virtual std::string Describe() const;

  // Tells of memory that most reads will go to: ranges that do not overlap and
  // outlive the reader. A reader that gains by it has the kernel look its pages
  // up once, and not for every read; from then on all of them are there and
  // stay, which is what it costs, in time too. Where it is refused (locked
  // memory has limits) reads go on as they would have: Describe says so. At
  // most once, before any read (CHECKed).
  virtual void RegisterMemory(std::span<const std::span<std::byte>> ranges);

  // Begins reads; does not wait for any. Requires file_idx in range, and `to`
  // unless num_bytes is 0 (CHECKed).
  virtual void Submit(std::span<const Read> reads) = 0;
  // Of reads that are over, up to done.size(). Waits for one if `waits` and
  // there is none but some are not reaped yet; 0: none, or no room in `done`.
  // Each read is reaped once, by whoever comes first; whoever still waits when
  // the last one is reaped gets 0.
  virtual size_t Reap(std::span<Done> done, bool waits) = 0;

  virtual ReaderStats stats() const = 0;

 protected:
  BlockReader() = default;
};

// io_uring, or where the kernel or its rules refuse that a pool of threads that
// call pread. `paths` are opened for reading: kNotFound, kIo, naming the path;
// kInvalidArgument: a depth out of range; kResourceExhausted: no memory.
Result<std::unique_ptr<BlockReader>> OpenReader(
    const std::vector<std::string>& paths, const ReaderOptions& options);
// The same by name, for tests and for who measures: "io_uring", "pread".
// kUnsupported: it is not here, with why; kInvalidArgument: no such reader.
Result<std::unique_ptr<BlockReader>> OpenReaderNamed(
    std::string_view name, const std::vector<std::string>& paths,
    const ReaderOptions& options);

// A reader of memory whose time and faults come from a seed. Reads end in a
// drawn order, each after a drawn number of Reap calls; one that waits lets as
// much time go by as it has to. Until then what a read is for is overwritten
// with 0xa5.
struct FakeOptions {
  uint64_t seed = 1;
  size_t alignment = 4096;
  double fail_share = 0.0;   // of reads: kIo
  double short_share = 0.0;  // of reads: end early, and go on by themselves
  uint64_t fail_read = 0;    // which fails, as submitted; from 1, 0: none
  size_t most_waits = 4;     // Reap calls that a read takes at most
};
// The files' bytes outlive it.
std::unique_ptr<BlockReader> MakeFakeReader(
    std::vector<std::span<const std::byte>> files, const FakeOptions& options);

}  // namespace thermocline::storage

#endif  // THERMOCLINE_STORAGE_BLOCK_READER_H_
