// How long a stream's reads take with nothing computed beside them.
#ifndef THERMOCLINE_ENGINE_STREAM_STREAM_REPLAY_H_
#define THERMOCLINE_ENGINE_STREAM_STREAM_REPLAY_H_

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/stream/stream_options.h"
#include "gguf/gguf.h"
#include "storage/read_log.h"

namespace thermocline::engine {

struct StreamReplay {
  std::string reader;  // "io_uring"
  size_t depth = 0;
  bool is_direct = true;  // past the page cache
  // [tokens] that the log has whole: with all reads known from the start; and
  // where each turn waits for the one before, as in the run.
  std::vector<double> seconds, in_turns_seconds;
};

// What `log` noted of a stream of this file, by a reader of the same kind and
// depth, or `open`'s where that is not empty; to memory of its own, 64 MiB at
// most, of which the reader knows as of a stream's slots. Best when the stream
// is gone, whose memory would come on top. Errors of opening files and of
// storage::ReplayReads.
Result<StreamReplay> ReplayStream(const gguf::File& file,
                                  const storage::ReadLog& log,
                                  const OpenRecordReader& open = {});

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STREAM_STREAM_REPLAY_H_
