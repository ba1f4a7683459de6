// For tests: where tokenizers and their golden cases lie, and how they are
// read.
#ifndef THERMOCLINE_TEXT_TEST_GOLDEN_H_
#define THERMOCLINE_TEXT_TEST_GOLDEN_H_

#include <cstddef>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace thermocline::text {

inline constexpr size_t kNumCases = 46;  // of each golden file

inline std::string Golden(const std::string& file) {
  return std::string(TC_TEST_DATA) + "/tokenizers/" + file;
}

// Licensed to read, not to copy: not in the repository.
inline std::string Fixture(const std::string& file) {
  return std::string(TC_SOURCE_DIR) + "/../shared/fixtures/tokenizers/" + file;
}

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The parts of a text in which each ends with the separator.
inline std::vector<std::string> SplitBy(std::string_view content,
                                        std::string_view separator) {
  std::vector<std::string> parts;
  while (true) {
    const size_t end = content.find(separator);
    if (end == std::string_view::npos) return parts;
    parts.emplace_back(content.substr(0, end));
    content.remove_prefix(end + separator.size());
  }
}

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_TEST_GOLDEN_H_
