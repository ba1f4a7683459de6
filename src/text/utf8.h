// UTF-8 as RFC 3629 defines it: no overlong forms, no surrogates, at most
// U+10FFFF. The same notion of validity as the regex engine's.
#ifndef THERMOCLINE_TEXT_UTF8_H_
#define THERMOCLINE_TEXT_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace thermocline::text {

// What some editors put at the very beginning of a text file.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// `text` without such a mark at its beginning.
std::string_view WithoutByteOrderMark(std::string_view text);

// Bytes of the valid character that `text` starts with, 1 to 4; 0 if it starts
// with none (invalid, cut off or empty).
size_t Utf8CharLength(std::string_view text);

// The character that `text` starts with. Requires Utf8CharLength(text) == n >
// 0.
char32_t DecodeUtf8Char(std::string_view text, size_t n);

// Appends a character. Requires a Unicode scalar value.
void AppendUtf8(char32_t c, std::string* out);

// `text` behind the ASCII white space that it starts with.
std::string_view SkipWhiteSpace(std::string_view text);

// `text` in front of the ASCII white space that it ends with.
std::string_view WithoutTrailingSpace(std::string_view text);

bool IsValidUtf8(std::string_view text);

// A valid copy of the same length: each byte that is part of no valid character
// becomes 0x01, a control character, which no text pattern takes for a letter,
// digit, mark or space.
std::string MaskInvalidUtf8(std::string_view text);

// Length of the longest suffix, 0 to 3, that more bytes could still complete
// to a character.
size_t IncompleteUtf8Suffix(std::string_view text);

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_UTF8_H_
