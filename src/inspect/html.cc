#include "inspect/html.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/quote.h"
#include "base/units.h"
#include "text/utf8.h"

namespace thermocline::inspect {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

bool IsControl(char32_t c) { return c < 0x20 || (c >= 0x7F && c < 0xA0); }

}  // namespace

std::string HtmlText(std::string_view text) {
  std::string html;
  while (!text.empty()) {
    const size_t length = text::Utf8CharLength(text);
    const char first = text.front();
    if (length == 0 || IsControl(text::DecodeUtf8Char(text, length))) {
      html += kReplacement;
    } else if (first == '&') {
      html += "&amp;";
    } else if (first == '<') {
      html += "&lt;";
    } else if (first == '>') {
      html += "&gt;";
    } else if (first == '"') {
      html += "&quot;";
    } else if (first == '\'') {
      html += "&#39;";
    } else {
      html += text.substr(0, length);
    }
    text.remove_prefix(std::max(length, size_t{1}));
  }
  return html;
}

std::string HtmlName(std::string_view name) { return HtmlText(Escape(name)); }

std::string HtmlBytes(uint64_t num_bytes) {
  return fmt::format("<data value=\"{}\">{}</data>", num_bytes,
                     FormatBytes(num_bytes));
}

std::string Grouped(uint64_t number) {
  std::string digits = fmt::format("{}", number);
  for (size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::string Percent(uint64_t part, uint64_t whole) {
  if (whole == 0) return "0 %";
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) /
                                     static_cast<double>(whole));
}

}  // namespace thermocline::inspect
