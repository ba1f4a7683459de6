// The files of a model, opened once more to read from them what stays there.
#ifndef THERMOCLINE_ENGINE_STREAM_STREAM_FILES_H_
#define THERMOCLINE_ENGINE_STREAM_STREAM_FILES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "engine/stream/stream_options.h"
#include "gguf/gguf.h"
#include "storage/block_reader.h"

namespace thermocline::engine {

// A reader of all shards, by `open`, or if that is empty the system's with
// these options. Errors of opening them; kIo: they have another size than when
// the model was opened. One of the same size that took its place since is not
// told from it. Threads  any.
Result<std::unique_ptr<storage::BlockReader>> OpenStreamFiles(
    const gguf::File& file, const OpenRecordReader& open,
    const storage::ReaderOptions& options = {});

// [shards] as the reader has them.
std::vector<uint64_t> ShardBytes(const gguf::File& file,
                                 const storage::BlockReader& reader);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STREAM_STREAM_FILES_H_
