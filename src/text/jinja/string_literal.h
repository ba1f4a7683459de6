// Texts as a template's source writes them.
#ifndef THERMOCLINE_TEXT_JINJA_STRING_LITERAL_H_
#define THERMOCLINE_TEXT_JINJA_STRING_LITERAL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "text/utf8.h"

namespace thermocline::text::jinja {

// The value of a hexadecimal digit; -1: it is none.
inline int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Reads up to `most` digits of `text`; gives how many there were.
inline size_t ReadDigits(std::string_view text, size_t most, int base,
                         uint32_t* number) {
  size_t n = 0;
  for (*number = 0; n < most && n < text.size(); ++n) {
    const int digit = HexDigit(text[n]);
    if (digit < 0 || digit >= base) break;
    *number =
        *number * static_cast<uint32_t>(base) + static_cast<uint32_t>(digit);
  }
  return n;
}

// Appends what an escape of digits stands for; surrogates are one character
// where two of them meet, and U+FFFD otherwise. `rest` begins behind the
// backslash. Gives the bytes of it that were read; 0: no such escape.
inline size_t AppendCodeEscape(std::string_view rest, std::string* out) {
  const size_t num_digits = rest[0] == 'x'   ? 2
                            : rest[0] == 'u' ? 4
                            : rest[0] == 'U' ? 8
                                             : 0;
  uint32_t code = 0;
  size_t num_read = 0;
  if (num_digits > 0) {
    if (ReadDigits(rest.substr(1), num_digits, 16, &code) != num_digits) {
      return 0;
    }
    num_read = 1 + num_digits;
  } else {
    num_read = ReadDigits(rest, 3, 8, &code);
    if (num_read == 0) return 0;
  }
  if (code >= 0xd800 && code < 0xdc00 &&
      rest.substr(num_read).starts_with("\\u")) {
    uint32_t low = 0;
    if (ReadDigits(rest.substr(num_read + 2), 4, 16, &low) == 4 &&
        low >= 0xdc00 && low < 0xe000) {
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
      num_read += 6;
    }
  }
  if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) code = 0xfffd;
  AppendUtf8(code, out);
  return num_read;
}

// What stands between the quotes, with Python's escapes; those that Python does
// not know stay, backslash and all.
inline std::string UnescapeString(std::string_view source) {
  constexpr std::string_view kLetters = "\\'\"abfnrtv";
  constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\\' || i + 1 == source.size()) {
      out += source[i];
      continue;
    }
    const char c = source[i + 1];
    const size_t known = kLetters.find(c);
    size_t num_read = 1;
    if (known != std::string_view::npos) {
      out += kMeanings[known];
    } else if (c != '\n') {
      num_read = AppendCodeEscape(source.substr(i + 1), &out);
      if (num_read == 0) out += '\\';
    }
    i += num_read;
  }
  return out;
}

}  // namespace thermocline::text::jinja

#endif  // THERMOCLINE_TEXT_JINJA_STRING_LITERAL_H_
