#include "text/utf8.h"

#include <algorithm>

#include "base/check.h"

namespace thermocline::text {
namespace {

struct LeadByte {
  int num_bytes;              // of the whole character; 0: not a lead byte
  uint8_t second_min = 0x80;  // overlong forms, surrogates and values past
  uint8_t second_max = 0xbf;  // U+10FFFF all show in the second byte
};

LeadByte ClassifyLead(uint8_t byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xc2) return {0};
  if (byte < 0xe0) return {2};
  if (byte == 0xe0) return {3, 0xa0, 0xbf};
  if (byte == 0xed) return {3, 0x80, 0x9f};
  if (byte < 0xf0) return {3};
  if (byte == 0xf0) return {4, 0x90, 0xbf};
  if (byte < 0xf4) return {4};
  if (byte == 0xf4) return {4, 0x80, 0x8f};
  return {0};
}

// How many bytes at the start of `text` follow the form that its lead byte
// announces; at least 1 when there is a lead byte.
size_t WellFormedPrefix(std::string_view text, const LeadByte& lead) {
  const size_t end = std::min(text.size(), static_cast<size_t>(lead.num_bytes));
  for (size_t i = 1; i < end; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    const uint8_t min = i == 1 ? lead.second_min : 0x80;
    const uint8_t max = i == 1 ? lead.second_max : 0xbf;
    if (byte < min || byte > max) return i;
  }
  return end;
}

}  // namespace

std::string_view WithoutByteOrderMark(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) {
    text.remove_prefix(kByteOrderMark.size());
  }
  return text;
}

size_t Utf8CharLength(std::string_view text) {
  if (text.empty()) return 0;
  const LeadByte lead = ClassifyLead(static_cast<uint8_t>(text[0]));
  const auto num_bytes = static_cast<size_t>(lead.num_bytes);
  if (num_bytes <= 1) return num_bytes;
  return WellFormedPrefix(text, lead) == num_bytes ? num_bytes : 0;
}

char32_t DecodeUtf8Char(std::string_view text, size_t n) {
  TC_DCHECK(n >= 1 && n <= 4 && n <= text.size());
  const auto lead = static_cast<uint8_t>(text[0]);
  if (n == 1) return lead;
  char32_t c = lead & (0x7fu >> n);
  for (size_t i = 1; i < n; ++i) {
    c = (c << 6) | (static_cast<uint8_t>(text[i]) & 0x3fu);
  }
  return c;
}

void AppendUtf8(char32_t c, std::string* out) {
  TC_DCHECK(c < 0x110000 && (c < 0xd800 || c > 0xdfff));
  const auto tail = [c](int shift) {
    return static_cast<char>(0x80 | ((c >> shift) & 0x3f));
  };
  if (c < 0x80) {
    out->push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    *out += {static_cast<char>(0xc0 | (c >> 6)), tail(0)};
  } else if (c < 0x10000) {
    *out += {static_cast<char>(0xe0 | (c >> 12)), tail(6), tail(0)};
  } else {
    *out += {static_cast<char>(0xf0 | (c >> 18)), tail(12), tail(6), tail(0)};
  }
}

std::string_view SkipWhiteSpace(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\n\v\f\r");
  return begin == std::string_view::npos ? "" : text.substr(begin);
}

std::string_view WithoutTrailingSpace(std::string_view text) {
  return text.substr(0, text.find_last_not_of(" \t\n\v\f\r") + 1);
}

bool IsValidUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t n = Utf8CharLength(text);
    if (n == 0) return false;
    text.remove_prefix(n);
  }
  return true;
}

std::string MaskInvalidUtf8(std::string_view text) {
  std::string masked(text);
  for (size_t i = 0; i < text.size();) {
    const size_t n = Utf8CharLength(text.substr(i));
    if (n == 0) masked[i] = '\x01';
    i += std::max<size_t>(n, 1);
  }
  return masked;
}

size_t IncompleteUtf8Suffix(std::string_view text) {
  for (size_t n = 1; n <= std::min<size_t>(3, text.size()); ++n) {
    const std::string_view suffix = text.substr(text.size() - n);
    const LeadByte lead = ClassifyLead(static_cast<uint8_t>(suffix[0]));
    if (lead.num_bytes == 0) continue;  // a continuation: look further back
    const bool incomplete = static_cast<size_t>(lead.num_bytes) > n;
    return incomplete && WellFormedPrefix(suffix, lead) == n ? n : 0;
  }
  return 0;
}

}  // namespace thermocline::text
