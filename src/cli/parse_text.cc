#include "cli/parse_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/quote.h"

namespace thermocline::cli {
namespace {

constexpr std::string_view kWhiteSpace = " \t\r\n";
constexpr std::string_view kListSeparators = ", \t\r\n";

std::optional<char> PlainEscape(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case '\\':
    case '"':
    case '\'':
      return c;
    default:
      return std::nullopt;
  }
}

// The byte of "HH" at the start of `text`.
std::optional<char> HexByte(std::string_view text) {
  if (text.size() < 2) return std::nullopt;
  uint8_t byte = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + 2, byte, 16);
  if (error != std::errc() || end != text.data() + 2) return std::nullopt;
  return static_cast<char>(byte);
}

template <typename Number>
tl::unexpected<Error> OutOfRange(std::string_view text, Number min,
                                 Number max) {
  return Fail(ErrorCode::kInvalidArgument,
              "{} is out of range, allowed is {} to {}", Escape(text), min,
              max);
}

}  // namespace

Result<int64_t> ParseInt(std::string_view text, int64_t min, int64_t max) {
  int64_t value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) {
    return OutOfRange(text, min, max);
  }
  if (error != std::errc() || end != text.data() + text.size()) {
    return Fail(ErrorCode::kInvalidArgument, "'{}' is not a whole number",
                Escape(text));
  }
  if (value < min || value > max) {
    return OutOfRange(text, min, max);
  }
  return value;
}

Result<double> ParseFloat(std::string_view text, double min, double max) {
  double value = 0.0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() ||
      !std::isfinite(value)) {
    return Fail(ErrorCode::kInvalidArgument, "'{}' is not a number",
                Escape(text));
  }
  if (value < min || value > max) {
    return OutOfRange(text, min, max);
  }
  return value;
}

Result<uint64_t> ParseSize(std::string_view text) {
  struct Unit {
    std::string_view name;
    double num_bytes;
  };
  constexpr Unit kUnits[] = {{"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
                             {"TiB", 0x1p40}, {"KB", 1e3},     {"MB", 1e6},
                             {"GB", 1e9},     {"TB", 1e12},    {"K", 0x1p10},
                             {"M", 0x1p20},   {"G", 0x1p30},   {"T", 0x1p40},
                             {"B", 1.0}};
  std::string_view number = text;
  double scale = 1.0;
  for (const Unit& unit : kUnits) {
    if (!text.ends_with(unit.name)) continue;
    scale = unit.num_bytes;
    number.remove_suffix(unit.name.size());
    if (number.ends_with(' ')) number.remove_suffix(1);
    break;
  }
  constexpr double kMost = 0x1p60;
  const Result<double> value = ParseFloat(number, 0, kMost / scale);
  if (value.has_value()) return static_cast<uint64_t>(*value * scale);
  return Fail(ErrorCode::kInvalidArgument,
              "'{}' is not a size: write 4GiB, 512MiB or a number of bytes",
              Escape(text));
}

Result<std::vector<uint64_t>> ParseSizes(std::string_view text) {
  std::vector<uint64_t> sizes;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    TC_ASSIGN_OR_RETURN(sizes.emplace_back(),
                        ParseSize(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return sizes;
}

Result<std::vector<int64_t>> ParseIntList(std::string_view text, int64_t min,
                                          int64_t max) {
  std::vector<int64_t> values;
  bool after_comma = false;
  size_t begin = text.find_first_not_of(kWhiteSpace);
  while (begin != std::string_view::npos) {
    const size_t end =
        std::min(text.find_first_of(kListSeparators, begin), text.size());
    if (begin == end) break;  // a comma where a number belongs
    TC_ASSIGN_OR_RETURN(const int64_t value,
                        ParseInt(text.substr(begin, end - begin), min, max));
    values.push_back(value);
    begin = text.find_first_not_of(kWhiteSpace, end);
    after_comma = begin != std::string_view::npos && text[begin] == ',';
    if (after_comma) begin = text.find_first_not_of(kWhiteSpace, begin + 1);
  }
  if (begin != std::string_view::npos || after_comma) {
    return Fail(ErrorCode::kInvalidArgument,
                "a number is missing at a comma of the list");
  }
  if (values.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "no number given");
  }
  return values;
}

tl::unexpected<Error> NotOneOf(std::string_view text, std::string_view names) {
  return Fail(ErrorCode::kInvalidArgument, "'{}' is not one of {}",
              Escape(text), names);
}

std::vector<std::string> SplitAtCommas(std::string_view text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string ProcessEscapes(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) {
      if (const auto plain = PlainEscape(text[i + 1])) {
        out += *plain;
        i += 1;
        continue;
      }
      const auto byte = text[i + 1] == 'x' ? HexByte(text.substr(i + 2))
                                           : std::optional<char>();
      if (byte.has_value()) {
        out += *byte;
        i += 3;
        continue;
      }
    }
    out += text[i];
  }
  return out;
}

}  // namespace thermocline::cli
