// How many rows a call gets that kernels read in streams (kernels::kStreams).
#ifndef THERMOCLINE_ENGINE_STREAM_ROWS_H_
#define THERMOCLINE_ENGINE_STREAM_ROWS_H_

#include <cstddef>

namespace thermocline::engine {

// The number of rows, or the next that is larger by up to three times
// `alignment`, whose streams begin at different places of their pages
// (kernels::kPageBytes): side by side in them they are slower to read. Where
// none of these does, as with rows of whole pages, num_rows.
size_t WithStreamsApart(size_t num_rows, size_t row_bytes, size_t alignment);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STREAM_ROWS_H_
