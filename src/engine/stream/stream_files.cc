#include "engine/stream/stream_files.h"

#include <numeric>
#include <utility>

#include "os/file.h"

namespace thermocline::engine {
namespace {

Status CheckAreThose(const gguf::File& file,
                     const storage::BlockReader& reader) {
  for (int i = 0; i < file.num_shards(); ++i) {
    const auto idx = static_cast<uint32_t>(i);
    const auto before = file.shard_identity(idx);
    const auto now = reader.identity(idx);
    if (!before || !now || *before == *now) continue;
    const std::string path = file.shard_path(idx);
    return Fail(ErrorCode::kIo, "{}",
                before->IsSameFile(*now) ? os::DescribeChange(path)
                                         : os::DescribeReplacement(path));
  }
  const std::vector<uint64_t> shards = ShardBytes(file, reader);
  const uint64_t num_bytes =
      std::accumulate(shards.begin(), shards.end(), uint64_t{0});
  if (num_bytes == file.num_file_bytes()) return {};
  return Fail(ErrorCode::kIo,
              "{}: has {} bytes, and had {} when it was opened: it has changed "
              "since",
              file.path(), num_bytes, file.num_file_bytes());
}

}  // namespace

std::vector<std::string> ShardPaths(const gguf::File& file) {
  std::vector<std::string> paths;
  for (int i = 0; i < file.num_shards(); ++i) {
    paths.push_back(file.shard_path(static_cast<uint32_t>(i)));
  }
  return paths;
}

std::vector<uint64_t> ShardBytes(const gguf::File& file,
                                 const storage::BlockReader& reader) {
  std::vector<uint64_t> num_bytes;
  for (int i = 0; i < file.num_shards(); ++i) {
    num_bytes.push_back(reader.file_bytes(static_cast<uint32_t>(i)));
  }
  return num_bytes;
}

Result<std::unique_ptr<storage::BlockReader>> OpenStreamFiles(
    const gguf::File& file, const StreamOptions& stream,
    std::span<std::byte> slots, const storage::ReaderOptions& options) {
  const std::vector<std::string> paths = ShardPaths(file);
  TC_ASSIGN_OR_RETURN(auto reader, stream.open
                                       ? stream.open(paths)
                                       : storage::OpenReader(paths, options));
  TC_RETURN_IF_ERROR(CheckAreThose(file, *reader));
  if (!slots.empty()) reader->RegisterMemory({&slots, 1});
  if (stream.log != nullptr) {
    reader = storage::LogReads(std::move(reader), options.depth, stream.log);
  }
  return reader;
}

}  // namespace thermocline::engine
