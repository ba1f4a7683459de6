#include "storage/block_reader.h"

#include <utility>

#include "storage/open_file.h"
#include "storage/system_readers.h"

namespace thermocline::storage {
namespace {

Status CheckOptions(const ReaderOptions& options) {
  if (options.depth >= 1 && options.depth <= ReaderOptions::kDepthMax)
    return {};
  return Fail(ErrorCode::kInvalidArgument,
              "a reader has from 1 to {} reads at once, not {}",
              ReaderOptions::kDepthMax, options.depth);
}

}  // namespace

std::string BlockReader::Describe() const {
  return std::string(name()) + (alignment() > 1 ? ", O_DIRECT" : "");
}

void BlockReader::RegisterMemory(
    std::span<const std::span<std::byte>> /*ranges*/) {}

Result<std::unique_ptr<BlockReader>> OpenReader(
    const std::vector<std::string>& paths, const ReaderOptions& options) {
  TC_RETURN_IF_ERROR(CheckOptions(options));
  TC_ASSIGN_OR_RETURN(std::vector<OpenFile> files,
                      OpenForReads(paths, options.direct));
  auto reader = MakeUringReader(files, options);
  if (reader.has_value()) return reader;
  return MakePreadReader(files, options);
}

Result<std::unique_ptr<BlockReader>> OpenReaderNamed(
    std::string_view name, const std::vector<std::string>& paths,
    const ReaderOptions& options) {
  if (name != "pread" && name != "io_uring") {
    return Fail(ErrorCode::kInvalidArgument,
                "\"{}\" is not a reader: io_uring or pread", name);
  }
  TC_RETURN_IF_ERROR(CheckOptions(options));
  TC_ASSIGN_OR_RETURN(std::vector<OpenFile> files,
                      OpenForReads(paths, options.direct));
  return name == "pread" ? MakePreadReader(files, options)
                         : MakeUringReader(files, options);
}

}  // namespace thermocline::storage
