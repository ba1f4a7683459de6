#include "cli/output_file.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/quote.h"
#include "cli/standard_io.h"
#include "gguf/split.h"
#include "os/file.h"

namespace thermocline::cli {

namespace fs = std::filesystem;

namespace {

// The one name of a file that is not there yet; empty if it cannot be told.
fs::path WholeName(const std::string& path) {
  std::error_code error;
  const auto target = os::FollowLinks(path);
  if (!target.has_value()) return {};
  return fs::weakly_canonical(fs::absolute(*target, error), error);
}

// Whether writing both would leave one file; devices and pipes take both.
bool IsOneFile(const std::string& a, const std::string& b) {
  std::error_code error;
  if (fs::exists(a, error)) {
    return fs::is_regular_file(a, error) && fs::equivalent(a, b, error);
  }
  const fs::path whole = WholeName(a);
  return !whole.empty() && whole == WholeName(b);
}

}  // namespace

Status RefuseToReplaceInput(const std::string& output,
                            std::span<const std::string> inputs) {
  if (output == "-") {
    return Fail(ErrorCode::kInvalidArgument,
                "-: only input can be \"-\"; standard output is /dev/stdout");
  }
  std::error_code ignored;
  if (!fs::is_regular_file(output, ignored)) return {};
  for (const std::string& input : inputs) {
    if (fs::equivalent(input, output, ignored) ||
        (IsStdin(input) && fs::equivalent("/dev/stdin", output, ignored))) {
      return Fail(ErrorCode::kInvalidArgument,
                  "{}: is one of the files to read; choose another name",
                  output);
    }
  }
  return {};
}

Status CheckOutput(const std::string& output,
                   std::span<const std::string> inputs) {
  TC_RETURN_IF_ERROR(RefuseToReplaceInput(output, inputs));
  std::error_code ignored;
  if (fs::is_other(output, ignored)) return {};
  TC_RETURN_IF_ERROR(os::AtomicFile::Create(output));
  return {};
}

Status CheckOutputs(std::span<const std::string> outputs,
                    std::span<const std::string> inputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    TC_RETURN_IF_ERROR(CheckOutput(outputs[i], inputs));
    for (const std::string& other : outputs.first(i)) {
      if (!IsOneFile(outputs[i], other)) continue;
      return Fail(ErrorCode::kInvalidArgument,
                  "{}: two outputs have this name; choose another for one",
                  outputs[i]);
    }
  }
  return {};
}

std::string Wrote(const std::string& output) {
  return "wrote " + WithoutControls(output);
}

Status WriteReport(std::string_view report,
                   const std::vector<std::string>& outputs) {
  if (std::ranges::none_of(outputs, os::IsStandardOutput)) {
    return WriteStdout(report);
  }
  WriteStderr(report);
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
