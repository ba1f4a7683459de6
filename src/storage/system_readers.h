// The readers of files that block_reader.cc chooses from.
#ifndef THERMOCLINE_STORAGE_SYSTEM_READERS_H_
#define THERMOCLINE_STORAGE_SYSTEM_READERS_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "base/status.h"
#include "storage/block_reader.h"
#include "storage/open_file.h"

namespace thermocline::storage {

// Threads that call pread: what every kernel and every sandbox allows. One for
// each read that the kernel has, kPreadThreadsMax at most: enough for what SSDs
// do at once with blocks of some KiB, and threads that sleep cost memory alone.
// kResourceExhausted: no threads, or no memory for them.
inline constexpr size_t kPreadThreadsMax = 16;

Result<std::unique_ptr<BlockReader>> MakePreadReader(
    std::vector<OpenFile>& files, const ReaderOptions& options);

// io_uring: one thread keeps as many reads going as an SSD takes. kUnsupported:
// the kernel refuses, or the program was built without liburing;
// kResourceExhausted: no memory, or not enough of it may be locked. Says why;
// Files are taken where there is a reader, and left otherwise.
Result<std::unique_ptr<BlockReader>> MakeUringReader(
    std::vector<OpenFile>& files, const ReaderOptions& options);

}  // namespace thermocline::storage

#endif  // THERMOCLINE_STORAGE_SYSTEM_READERS_H_
