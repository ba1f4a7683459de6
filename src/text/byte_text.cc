#include "text/byte_text.h"

#include <algorithm>
#include <array>

#include "text/utf8.h"

namespace thermocline::text {
namespace {

constexpr int kNumShifted = 68;  // bytes that are not their own code point

struct ByteTable {
  std::array<std::string, 256> text;
  std::array<int16_t, 256 + kNumShifted> byte;  // by code point; -1: none
};

bool IsOwnCodePoint(int byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) ||
         byte >= 174;
}

ByteTable MakeTable() {
  ByteTable table;
  table.byte.fill(-1);
  char32_t next_shifted = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t c =
        IsOwnCodePoint(byte) ? static_cast<char32_t>(byte) : next_shifted++;
    AppendUtf8(c, &table.text[static_cast<size_t>(byte)]);
    table.byte[c] = static_cast<int16_t>(byte);
  }
  return table;
}

const ByteTable& Table() {
  static const ByteTable table = MakeTable();
  return table;
}

// The byte for the character of n > 0 bytes that `text` starts with, or -1.
int ByteOf(std::string_view text, size_t n) {
  const char32_t c = DecodeUtf8Char(text, n);
  return c < Table().byte.size() ? Table().byte[c] : -1;
}

}  // namespace

std::string_view ByteToText(uint8_t byte) { return Table().text[byte]; }

std::string BytesToText(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() + bytes.size() / 4);
  for (const char c : bytes) text += ByteToText(static_cast<uint8_t>(c));
  return text;
}

std::optional<std::string> TextToBytes(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  while (!text.empty()) {
    const size_t n = Utf8CharLength(text);
    const int byte = n == 0 ? -1 : ByteOf(text, n);
    if (byte < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(byte));
    text.remove_prefix(n);
  }
  return bytes;
}

std::string TextToBytesLenient(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  while (!text.empty()) {
    const size_t n = Utf8CharLength(text);
    const int byte = n == 0 ? -1 : ByteOf(text, n);
    const size_t num_taken = std::max<size_t>(n, 1);
    if (byte < 0) {
      bytes += text.substr(0, num_taken);
    } else {
      bytes.push_back(static_cast<char>(byte));
    }
    text.remove_prefix(num_taken);
  }
  return bytes;
}

}  // namespace thermocline::text
