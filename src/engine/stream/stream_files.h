// The files of a model, opened once more to read from them what stays there.
#ifndef THERMOCLINE_ENGINE_STREAM_STREAM_FILES_H_
#define THERMOCLINE_ENGINE_STREAM_STREAM_FILES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/stream/stream_options.h"
#include "gguf/gguf.h"
#include "storage/block_reader.h"

namespace thermocline::engine {

// A reader of all shards, by `stream.open`, or if that is empty the system's
// with these options; `stream.log` notes what it is asked for. `slots` is where
// most of its reads will go, and outlives it (BlockReader::RegisterMemory: from
// then on all its pages are there). Errors of opening them; kIo, naming it: one
// of them was replaced or written to since the model was opened. Threads  any.
Result<std::unique_ptr<storage::BlockReader>> OpenStreamFiles(
    const gguf::File& file, const StreamOptions& stream,
    std::span<std::byte> slots, const storage::ReaderOptions& options = {});

std::vector<std::string> ShardPaths(const gguf::File& file);

// [shards] as the reader has them.
std::vector<uint64_t> ShardBytes(const gguf::File& file,
                                 const storage::BlockReader& reader);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STREAM_STREAM_FILES_H_
