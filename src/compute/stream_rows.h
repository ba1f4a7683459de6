// How many rows a call gets that kernels read in streams (kernels::kStreams).
#ifndef THERMOCLINE_COMPUTE_STREAM_ROWS_H_
#define THERMOCLINE_COMPUTE_STREAM_ROWS_H_

#include <cstddef>

namespace thermocline::compute {

// What WithStreamsApart() adds at most, in steps of its `alignment`.
inline constexpr size_t kMostStepsAdded = 3;

// The number of rows, or the next that is larger by up to kMostStepsAdded times
// `alignment`, whose streams begin each at another place of its page
// (kernels::kPageBytes) than the one before: side by side in them they are
// slower to read. Where none of these does, as with rows of whole pages, and
// where there are too few for streams, num_rows.
size_t WithStreamsApart(size_t num_rows, size_t row_bytes, size_t alignment);

}  // namespace thermocline::compute

#endif  // THERMOCLINE_COMPUTE_STREAM_ROWS_H_
