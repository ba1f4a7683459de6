// What storage gives, as a table. (PowerInfer-2, table 1 and figure 1b.)
#ifndef THERMOCLINE_BENCH_IO_FORMAT_H_
#define THERMOCLINE_BENCH_IO_FORMAT_H_

#include <string>

#include "bench/bench.h"
#include "probe/storage_rates.h"

namespace thermocline::bench {

struct IoReport {
  std::string build, cpu;  // the caller's to fill in
  std::string path;        // the file, or the folder that a file was made in
  bool is_made = false;    // there
  probe::StorageRates rates;
};

// Columns  order, range from the file's beginning, block, depth (reads under
// way
//          at once), reads and MB a second (1 MB = 1e6 bytes), and how long a
//          read took: the mean, the median, what 99 of 100 kept to.
// Markdown: a table, and below it what was read and how.
// JSON: an object with a list of rows; bytes of the path that are no UTF-8 are
// replaced.
// CSV: a line of names and a line for each row.
std::string FormatIo(const IoReport& report, BenchFormat format);

// What storage gives, drawn (PowerInfer-2, figure 1b; in io_svg.cc). A file for
// browsers: two panels, random and in sequence over the whole range,
// MB/s by block size (both logarithmic, as the sizes are powers of two), a line
// for each depth with its name at its end.
std::string DrawIo(const IoReport& report);

}  // namespace thermocline::bench

#endif  // THERMOCLINE_BENCH_IO_FORMAT_H_
