#include "engine/stream/stream_files.h"

#include <numeric>
#include <string>

namespace thermocline::engine {

std::vector<uint64_t> ShardBytes(const gguf::File& file,
                                 const storage::BlockReader& reader) {
  std::vector<uint64_t> num_bytes;
  for (int i = 0; i < file.num_shards(); ++i) {
    num_bytes.push_back(reader.file_bytes(static_cast<uint32_t>(i)));
  }
  return num_bytes;
}

Result<std::unique_ptr<storage::BlockReader>> OpenStreamFiles(
    const gguf::File& file, const OpenRecordReader& open,
    const storage::ReaderOptions& options) {
  std::vector<std::string> paths;
  for (int i = 0; i < file.num_shards(); ++i) {
    paths.push_back(file.shard_path(static_cast<uint32_t>(i)));
  }
  TC_ASSIGN_OR_RETURN(auto reader,
                      open ? open(paths) : storage::OpenReader(paths, options));
  const std::vector<uint64_t> shards = ShardBytes(file, *reader);
  const uint64_t num_bytes =
      std::accumulate(shards.begin(), shards.end(), uint64_t{0});
  if (num_bytes == file.num_file_bytes()) return reader;
  return Fail(ErrorCode::kIo,
              "{}: has {} bytes, and had {} when it was opened: it has changed "
              "since",
              file.path(), num_bytes, file.num_file_bytes());
}

}  // namespace thermocline::engine
