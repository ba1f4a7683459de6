// What storage gives: reads by order, size, range and depth, with the time that
// each takes.
#ifndef THERMOCLINE_PROBE_STORAGE_RATES_H_
#define THERMOCLINE_PROBE_STORAGE_RATES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/status.h"
#include "os/unique_fd.h"

namespace thermocline::probe {

struct StorageRatesOptions {
  std::string reader;  // storage/block_reader.h: "io_uring", "pread"; "": best
  std::vector<size_t> depths = {1, 8, 32, 64};
  // All of these over the whole range, in sequence and at random.
  std::vector<size_t> block_bytes = {4096,   8192,   16384,  32768,   65536,
                                     131072, 262144, 524288, 1048576, 2097152};
  // Random reads of the least block alone within these; what is more than the
  // file has is left out. The largest that is left is the whole range, or if
  // none is, the file.
  std::vector<uint64_t> range_bytes = {uint64_t{128} << 20, uint64_t{256} << 20,
                                       uint64_t{512} << 20, uint64_t{1} << 30,
                                       uint64_t{2} << 30,   uint64_t{4} << 30};
  double seconds = 0.3;  // of each row; and its reads that were under way
  uint64_t seed = 1;     // of the places
  // To memory that the reader knows (BlockReader::RegisterMemory).
  bool registered = false;
  std::optional<int> cpu;  // that the thread which submits and reaps stays on
  ProgressFn progress;     // counts rows
};

struct StorageRate {
  bool is_random = false;
  uint64_t range_bytes = 0;  // from the file's beginning
  size_t block_bytes = 0;
  size_t depth = 0;  // reads under way at once
  uint64_t num_reads = 0;
  double seconds = 0.0;
  // From when a read was submitted until it was reaped.
  double mean_us = 0.0, p50_us = 0.0, p99_us = 0.0;

  double reads_per_s() const {
    return static_cast<double>(num_reads) / seconds;
  }
  // 1 MB = 1e6 bytes.
  double mb_per_s() const {
    return reads_per_s() * static_cast<double>(block_bytes) / 1e6;
  }
};

struct StorageRates {
  std::string reader;    // its name; of registered memory all that it says
  size_t alignment = 1;  // of the file system; 1: through the page cache
  uint64_t file_bytes = 0;
  std::vector<StorageRate> rates;

  bool is_direct() const { return alignment > 1; }
};

// Reads the file, whose cached pages are dropped before (and, where reads go
// through the cache, before each row: what a row reads twice it counts twice).
// One thread submits and reaps. Errors of the reader and, with a CPU, of
// os::OnCpus; kInvalidArgument: the
// file has not even one block of the largest size; no depth, no block, or one
// of 0.
// Cost: `seconds` for each row, of which there are two for each block and
// depth, and one for each range and depth; memory for the most bytes under way.
Result<StorageRates> MeasureStorage(const std::string& path,
                                    const StorageRatesOptions& options);

// A file without a name in a folder: gone when it is closed, also by the
// process's end. It holds random bytes, which no storage saves space on, and is
// on its disk. The name to open it by is /proc/self/fd/N.
struct TestFile {
  os::UniqueFd fd;
  std::string path;
};
// kResourceExhausted: less is free than that and kSpareBytes; kNotFound, kIo:
// the folder takes no files. All name the folder.
inline constexpr uint64_t kSpareBytes = uint64_t{256} << 20;
Result<TestFile> MakeTestFile(const std::string& folder, uint64_t num_bytes,
                              uint64_t seed, const ProgressFn& progress);

}  // namespace thermocline::probe

#endif  // THERMOCLINE_PROBE_STORAGE_RATES_H_
