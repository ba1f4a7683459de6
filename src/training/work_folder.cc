#include "training/work_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/quote.h"
#include "base/remedy.h"
#include "neuron/crc32.h"
#include "os/file.h"

namespace thermocline::training {
namespace {

namespace fs = std::filesystem;

constexpr char kDescription[] = "description.txt";
constexpr char kStageEnd[] = ".gguf";
constexpr char kChecksumEnd[] = ".crc";  // behind the stage's
// Ends a description: without it the file was cut off.
constexpr std::string_view kLastLine = "end of description\n";

// Of a process that was killed while it wrote one of its files.
bool IsLeftOver(const fs::path& path) {
  return os::IsAtomicTemporary(path.filename().native());
}

// "1234 bytes, CRC-32 0123abcd", of the file as it is.
Result<std::string> ChecksumOf(const std::string& path) {
  TC_ASSIGN_OR_RETURN(const auto file, os::MappedFile::Open(path));
  return fmt::format("{} bytes, CRC-32 {:08x}\n", file.bytes().size(),
                     neuron::Crc32(file.bytes()));
}

std::string_view TakeLine(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

// The first lines in which two texts differ.
std::pair<std::string, std::string> FirstDifference(std::string_view a,
                                                    std::string_view b) {
  while (!a.empty() || !b.empty()) {
    const std::string_view line_a = TakeLine(a);
    const std::string_view line_b = TakeLine(b);
    if (line_a != line_b) return {std::string(line_a), std::string(line_b)};
  }
  return {};
}

// Two lines that differ, as messages quote them. A quotation ends early: where
// that hides the difference, what lies between the lines' name and the first
// entry of their lists that differs is left out.
std::pair<std::string, std::string> QuoteBoth(std::string_view was,
                                              std::string_view is) {
  if (Quote(was) != Quote(is)) return {Quote(was), Quote(is)};
  const auto at = std::ranges::mismatch(was, is).in1 - was.begin();
  const std::string_view same = was.substr(0, static_cast<size_t>(at));
  const size_t name = same.find(": ");
  const size_t comma = same.rfind(", ");
  if (name >= comma || comma == std::string_view::npos) {
    return {Quote(was), Quote(is)};
  }
  const auto shorten = [&](std::string_view line) {
    return Quote(
        fmt::format("{}: ...{}", line.substr(0, name), line.substr(comma + 1)));
  };
  return {shorten(was), shorten(is)};
}

Status CheckSame(const std::string& path, const std::string& found,
                 const std::string& wanted) {
  if (found == wanted) return {};
  if (!found.ends_with(kLastLine)) {
    return Fail(ErrorCode::kInvalidArgument, Advice{Remedy::kOutput},
                "{}: is no folder of an interrupted preparation, or its {} is "
                "damaged: delete the folder to begin anew",
                path, kDescription);
  }
  const auto lines = FirstDifference(found, wanted);
  const auto [was, is] = QuoteBoth(lines.first, lines.second);
  return Fail(ErrorCode::kInvalidArgument, Advice{Remedy::kOutput},
              "{}: holds a preparation that was interrupted, with {}, now {}: "
              "give the same model, text and options to go on with it, or "
              "delete the folder to begin anew",
              path, was, is);
}

Result<os::FolderLock> Lock(const std::string& path) {
  TC_ASSIGN_OR_RETURN(auto lock, os::FolderLock::Take(path));
  if (lock) return *std::move(lock);
  return Fail(ErrorCode::kInvalidArgument,
              "{}: another preparation is at work there: wait for it, or give "
              "another output",
              path);
}

}  // namespace

Result<WorkFolder> WorkFolder::Open(const std::string& path,
                                    const std::string& description) {
  const std::string wanted = description + std::string(kLastLine);
  const std::string file_path = path + "/" + kDescription;
  // Before anything is looked at: somebody else may be writing it.
  TC_ASSIGN_OR_RETURN(os::FolderLock lock, Lock(path));
  std::error_code error;
  if (!std::ranges::all_of(fs::directory_iterator(path, error), IsLeftOver)) {
    const auto found = os::ReadFile(file_path, 1 << 20);
    TC_RETURN_IF_ERROR(
        CheckSame(path, found.has_value() ? *found : "", wanted));
    return WorkFolder(path, std::move(lock), true);
  }
  TC_ASSIGN_OR_RETURN(const auto file, os::AtomicFile::Create(file_path));
  TC_RETURN_IF_ERROR(file->Write(std::string_view(wanted)));
  TC_RETURN_IF_ERROR(file->Commit());
  return WorkFolder(path, std::move(lock), false);
}

bool WorkFolder::Has(const std::string& stage) const {
  std::error_code error;
  return fs::exists(FileOf(stage), error) &&
         fs::exists(FileOf(stage) + kChecksumEnd, error);
}

Status WorkFolder::Finish(const std::string& stage) const {
  TC_ASSIGN_OR_RETURN(const std::string path, FileToWrite(stage));
  TC_ASSIGN_OR_RETURN(const std::string checksum, ChecksumOf(path));
  TC_ASSIGN_OR_RETURN(const auto file,
                      os::AtomicFile::Create(path + kChecksumEnd));
  TC_RETURN_IF_ERROR(file->Write(std::string_view(checksum)));
  return file->Commit();
}

Result<std::string> WorkFolder::FileToRead(const std::string& stage) const {
  std::string path = FileOf(stage);
  const auto wanted = os::ReadFile(path + kChecksumEnd, 1 << 20);
  if (!wanted) return Unreadable(wanted.error());
  const auto found = ChecksumOf(path);
  if (!found) return Unreadable(found.error());
  if (*found == *wanted) return path;
  return Unreadable(
      {ErrorCode::kCorrupt,
       fmt::format("{}: does not hold what was written: its checksum is "
                   "another",
                   path)});
}

Result<std::string> WorkFolder::FileToWrite(const std::string& stage) const {
  TC_RETURN_IF_ERROR(CheckIsOurs());
  return FileOf(stage);
}

bool WorkFolder::IsEmptyAt(const std::string& path) {
  std::error_code error;
  return std::ranges::none_of(fs::directory_iterator(path, error),
                              [](const auto& entry) {
                                return entry.path().extension() == kChecksumEnd;
                              });
}

Status WorkFolder::CheckIsOurs() const {
  if (lock_.IsStillAt(path_)) return {};
  return Fail(ErrorCode::kIo,
              "{}: this folder was deleted or replaced while this command "
              "worked in it, and what was finished went with it: give the "
              "command again to begin anew",
              path_);
}

tl::unexpected<Error> WorkFolder::Unreadable(const Error& error) const {
  if (const Status ours = CheckIsOurs(); !ours.has_value()) {
    return tl::unexpected(ours.error());
  }
  return Fail(error.code,
              "{}; what an interrupted preparation left is damaged: delete {} "
              "to begin anew",
              error.message, path_);
}

Status WorkFolder::Remove() const {
  if (!CheckIsOurs().has_value()) return {};
  std::error_code error;
  std::vector<fs::path> ours;
  for (const auto& entry : fs::directory_iterator(path_, error)) {
    const fs::path& name = entry.path();
    if (name.extension() == kStageEnd || name.extension() == kChecksumEnd ||
        IsLeftOver(name)) {
      ours.push_back(name);
    }
  }
  // Last: killed before it, this leaves a folder that can be gone on from.
  ours.push_back(fs::path(path_) / kDescription);
  for (const fs::path& name : ours) {
    if (!error) fs::remove(name, error);
  }
  if (!error && fs::is_empty(path_, error)) fs::remove(path_, error);
  if (!error || error == std::errc::no_such_file_or_directory) return {};
  return Fail(ErrorCode::kIo, "{}: cannot delete what is no longer needed: {}",
              path_, error.message());
}

}  // namespace thermocline::training
