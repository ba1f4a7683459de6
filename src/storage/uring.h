// One io_uring, and what it knows by number: files and memory.
#ifndef THERMOCLINE_STORAGE_URING_H_
#define THERMOCLINE_STORAGE_URING_H_

#ifdef TC_LIBURING

#include <liburing.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "storage/fixed_memory.h"
#include "storage/open_file.h"
#include "storage/read_steps.h"

namespace thermocline::storage {

// Thread-compatible.
class Uring {
 public:
  Uring() = default;
  Uring(const Uring&) = delete;
  Uring& operator=(const Uring&) = delete;
  // Requires that the kernel has no read of it any more.
  ~Uring();

  // Of `depth` entries. kUnsupported: the kernel refuses, or cannot read so;
  // kResourceExhausted: no memory for it, or too little may be locked.
  Status Open(size_t depth);
  // Saves the kernel a look at the file in every read; refused, nothing is
  // lost.
  void RegisterFiles(const std::vector<OpenFile>& files);
  // Saves it looking up, and holding, the pages in every read: they are held
  // from here on, in tables of the kernel's: of huge pages next to nothing, of
  // others 1/256 of it. At most once. kResourceExhausted: so much may not be
  // locked, or there is no memory; kUnsupported: refused. Says why in a few
  // words: "RLIMIT_MEMLOCK 8.00 MiB".
  Status RegisterMemory(std::span<const std::span<std::byte>> ranges);

  io_uring* get() { return &ring_; }
  // Makes an entry that reads; `file` is the one of that number. Whether it
  // goes to registered memory.
  bool PrepareRead(io_uring_sqe* sqe, const OpenFile& file, uint32_t file_idx,
                   const ReadSteps::Call& call) const;

 private:
  io_uring ring_ = {};
  bool is_open_ = false;
  bool has_files_ = false;  // known to the kernel by their index
  FixedMemory memory_;      // likewise
};

}  // namespace thermocline::storage

#endif

#endif  // THERMOCLINE_STORAGE_URING_H_
