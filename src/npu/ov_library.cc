#include "npu/ov_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace thermocline::npu {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStem = "libopenvino_c.so";
constexpr std::string_view kHowToGetIt = "tools/fetch_openvino.sh fetches it";
// 23 is 2023, the first year that has what is called here.
constexpr int kFirstShortYear = 23;
constexpr int kLastShortYear = 29;

// The number behind "libopenvino_c.so.", 100000 of no number behind it, 0 of
// other files.
int RankOf(std::string_view file_name) {
  if (!file_name.starts_with(kStem)) return 0;
  file_name.remove_prefix(kStem.size());
  if (file_name.empty()) return 100000;
  int rank = 0;
  const char* end = file_name.data() + file_name.size();
  const auto parsed = std::from_chars(file_name.data() + 1, end, rank);
  const bool is_number =
      file_name[0] == '.' && parsed.ec == std::errc() && parsed.ptr == end;
  return is_number && rank < 100000 ? rank : 0;
}

// Empty: none.
std::string BestIn(const fs::path& folder) {
  std::string best;
  int best_rank = 0;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    const int rank = RankOf(name);
    if (rank <= best_rank) continue;
    best_rank = rank;
    best = it->path().string();
  }
  return best;
}

// With a folder in front, so that nobody looks for it where the system would.
Result<std::string> Absolute(const fs::path& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  if (!error) return absolute.string();
  return Fail(ErrorCode::kIo, "'{}': the working folder cannot be told: {}",
              path.string(), error.message());
}

Result<OvLibrary> OpenNamed(const std::string& file_or_folder,
                            std::string_view who) {
  auto path = LibraryIn(file_or_folder);
  if (!path.has_value()) return Annotate(who, path.error());
  void* handle = dlopen(path->c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return Fail(ErrorCode::kUnsupported,
                "{}: '{}' does not load as OpenVINO's library: {}", who, *path,
                dlerror());
  }
  return OvLibrary{.handle = handle, .name = *path};
}

}  // namespace

Result<std::string> LibraryIn(const std::string& file_or_folder) {
  std::error_code ignored;
  const fs::path path(file_or_folder);
  if (!fs::exists(path, ignored)) {
    return Fail(ErrorCode::kNotFound,
                "'{}', where OpenVINO's library was to be, is not there; {}",
                file_or_folder, kHowToGetIt);
  }
  if (!fs::is_directory(path, ignored)) return Absolute(path);
  const fs::path below = path / "openvino" / "libs";
  for (const fs::path& folder : {path, below}) {
    const std::string best = BestIn(folder);
    if (!best.empty()) return Absolute(best);
  }
  return Fail(ErrorCode::kNotFound,
              "OpenVINO's library, {}, is neither in '{}' nor in '{}'; {}",
              kStem, path.string(), below.string(), kHowToGetIt);
}

std::vector<std::string> LibraryNames() {
  std::vector<std::string> names = {std::string(kStem)};
  for (int year = kLastShortYear; year >= kFirstShortYear; --year) {
    for (int minor = 5; minor >= 0; --minor) {
      for (int patch = 3; patch >= 0; --patch) {
        names.push_back(fmt::format("{}.{}{}{}", kStem, year, minor, patch));
      }
    }
  }
  return names;
}

Result<OvLibrary> OpenLibrary(const std::string& library) {
  if (!library.empty()) return OpenNamed(library, "the setting");
  const char* named = std::getenv("THERMOCLINE_OPENVINO");
  if (named != nullptr && *named != '\0') {
    return OpenNamed(named, "$THERMOCLINE_OPENVINO");
  }
  const std::vector<std::string> names = LibraryNames();
  for (const std::string& name : names) {
    void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) return OvLibrary{.handle = handle, .name = name};
  }
  return Fail(ErrorCode::kNotFound,
              "OpenVINO's library was not found: no folder or file is named, "
              "$THERMOCLINE_OPENVINO is not set, and the system's folders of "
              "libraries have no {} and no {} to {}; {}",
              names[0], names.back(), names[1], kHowToGetIt);
}

}  // namespace thermocline::npu
