#include "cli/output_file.h"

#include <filesystem>
#include <system_error>

#include "gguf/split.h"

namespace thermocline::cli {

namespace fs = std::filesystem;

Status RefuseToReplaceInput(const std::string& output,
                            std::span<const std::string> inputs) {
  if (output == "-") {
    return Fail(ErrorCode::kInvalidArgument,
                "-: only input can be \"-\"; standard output is /dev/stdout");
  }
  std::error_code ignored;
  if (!fs::is_regular_file(output, ignored)) return {};
  for (const std::string& input : inputs) {
    if (fs::equivalent(input, output, ignored)) {
      return Fail(ErrorCode::kInvalidArgument,
                  "{}: is one of the files to read; choose another name",
                  output);
    }
  }
  return {};
}

std::vector<std::string> FilesIn(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  while (!error && entry != fs::directory_iterator()) {
    paths.push_back(entry->path().string());
    entry.increment(error);
  }
  return paths;
}

std::vector<std::string> ModelFiles(const std::string& path) {
  std::vector<std::string> paths = {path};
  const auto name = gguf::ParseShardName(path);
  if (!name.has_value()) return paths;
  for (int i = 1; i <= name->count; ++i) {
    paths.push_back(gguf::ShardPath(name->prefix, i, name->count));
  }
  return paths;
}

}  // namespace thermocline::cli
