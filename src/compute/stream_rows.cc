#include "compute/stream_rows.h"

#include "kernels/kernels.h"

namespace thermocline::compute {
namespace {

// How far apart in their pages (kernels::kPageBytes) streams of a piece begin:
// with streams 36 KiB apart, 128 rows of llama-1b in Q4_0, two threads
// take 1.05 times as long as with 31.5.
constexpr size_t kStreamsApart = 512;

bool BeginApartInPages(size_t num_rows, size_t row_bytes) {
  const size_t apart =
      num_rows / kernels::kStreams * row_bytes % kernels::kPageBytes;
  return apart >= kStreamsApart && apart <= kernels::kPageBytes - kStreamsApart;
}

}  // namespace

size_t WithStreamsApart(size_t num_rows, size_t row_bytes, size_t alignment) {
  if (num_rows < kernels::kStreamRows) return num_rows;
  for (size_t i = 0; i <= kMostStepsAdded; ++i) {
    const size_t more = num_rows + i * alignment;
    if (BeginApartInPages(more, row_bytes)) return more;
  }
  return num_rows;
}

}  // namespace thermocline::compute
