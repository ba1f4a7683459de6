#include "base/quote.h"

#include <fmt/format.h>

namespace thermocline {
namespace {

constexpr size_t kMaxBytes = 80;

// The longest part that fits and does not end inside a character.
std::string_view Cut(std::string_view text) {
  if (text.size() <= kMaxBytes) return text;
  const auto is_inside = [text](size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
  };
  size_t end = kMaxBytes;
  for (int i = 0; i < 3 && is_inside(end); ++i) --end;
  return text.substr(0, is_inside(end) ? kMaxBytes : end);
}

}  // namespace

std::string Quote(std::string_view text) {
  const std::string_view shown = Cut(text);
  return fmt::format("{:?}{}", shown, shown.size() < text.size() ? "..." : "");
}

std::string Escape(std::string_view text) {
  const std::string_view shown = Cut(text);
  const std::string quoted = fmt::format("{:?}", shown);
  return quoted.substr(1, quoted.size() - 2) +
         (shown.size() < text.size() ? "..." : "");
}

std::string QuoteCsv(std::string_view text) {
  std::string field = "\"";
  for (const char c : text) {
    if (c == '"') field += '"';
    field += c;
  }
  return field + '"';
}

std::string WithoutControls(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size()
                          ? static_cast<unsigned char>(text[i + 1])
                          : static_cast<unsigned char>(0);
    const bool is_c1 = byte == 0xC2 && next >= 0x80 && next < 0xA0;
    plain += byte < 0x20 || byte == 0x7F || is_c1 ? ' ' : text[i];
    if (is_c1) ++i;
  }
  return plain;
}

}  // namespace thermocline
