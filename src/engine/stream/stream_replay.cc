#include "engine/stream/stream_replay.h"

#include <memory>
#include <span>

#include "engine/stream/stream_files.h"
#include "storage/block_reader.h"
#include "storage/read_replay.h"

namespace thermocline::engine {

Result<StreamReplay> ReplayStream(const gguf::File& file,
                                  const storage::ReadLog& log,
                                  const OpenRecordReader& open) {
  const std::vector<std::string> paths = ShardPaths(file);
  TC_ASSIGN_OR_RETURN(const auto memory,
                      storage::ReplayMemory::For(log, log.depth()));
  TC_ASSIGN_OR_RETURN(auto reader,
                      open ? open(paths)
                           : storage::OpenReaderNamed(log.reader_name(), paths,
                                                      {.depth = log.depth()}));
  // As the run did with its slots.
  const std::span<std::byte> bytes = memory.bytes();
  reader->RegisterMemory({&bytes, 1});
  StreamReplay replay = {.reader = log.reader_name(),
                         .depth = log.depth(),
                         .is_direct = reader->alignment() > 1};
  storage::ReplayOptions options = {.depth = log.depth()};
  TC_ASSIGN_OR_RETURN(replay.seconds,
                      storage::ReplayReads(*reader, log, memory, options));
  options.in_turns = true;
  TC_ASSIGN_OR_RETURN(replay.in_turns_seconds,
                      storage::ReplayReads(*reader, log, memory, options));
  return replay;
}

}  // namespace thermocline::engine
