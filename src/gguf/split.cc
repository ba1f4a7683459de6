#include "gguf/split.h"

#include <fmt/format.h>

#include <charconv>

namespace thermocline::gguf {
namespace {

std::optional<int> FiveDigits(std::string_view text) {
  int value = 0;
  const char* end = text.data() + text.size();
  // from_chars would take a sign; five characters that are a positive number
  // after it are five digits.
  if (text.size() != 5 || text[0] == '-') return std::nullopt;
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

}  // namespace

std::optional<ShardName> ParseShardName(std::string_view path) {
  constexpr std::string_view kTail = "-00001-of-00001.gguf";
  if (path.size() < kTail.size()) return std::nullopt;
  const std::string_view tail = path.substr(path.size() - kTail.size());
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" ||
      tail.substr(15) != ".gguf") {
    return std::nullopt;
  }
  const auto number = FiveDigits(tail.substr(1, 5));
  const auto count = FiveDigits(tail.substr(10, 5));
  if (!number || !count || *number < 1 || *number > *count) {
    return std::nullopt;
  }
  return ShardName{std::string(path.substr(0, path.size() - kTail.size())),
                   *number, *count};
}

std::string ShardPath(std::string_view prefix, int number, int count) {
  return fmt::format("{}-{:05d}-of-{:05d}.gguf", prefix, number, count);
}

}  // namespace thermocline::gguf
