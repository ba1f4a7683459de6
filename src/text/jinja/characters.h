// What Python's texts know about characters, without a library's tables or a
// locale, which differ from machine to machine.
#ifndef THERMOCLINE_TEXT_JINJA_CHARACTERS_H_
#define THERMOCLINE_TEXT_JINJA_CHARACTERS_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace thermocline::text::jinja {

// A character of a text, or one byte that is part of none.
struct Character {
  char32_t code = 0;  // kNoCharacter: such a byte
  size_t num_bytes = 1;
};
inline constexpr char32_t kNoCharacter = 0xffffffff;

// Requires a text that is not empty.
Character FirstCharacter(std::string_view text);
Character LastCharacter(std::string_view text);

size_t NumCharacters(std::string_view text);
// Where the n-th character begins; text.size() if there are n or fewer.
size_t ByteOfCharacter(std::string_view text, size_t n);

// What `text` begins with, up to some thousand bytes: whole characters. Not
// empty where the text is not.
std::string_view FrontPiece(std::string_view text);

bool IsSpaceCharacter(char32_t c);      // str.isspace
bool IsLineEnd(char32_t c);             // where str.splitlines cuts
bool IsPrintableCharacter(char32_t c);  // repr writes it as it is
// Exact for scripts that have upper and lower case; of others, what lies in
// their blocks.
bool IsLetter(char32_t c);
bool IsUpperCase(char32_t c);
bool IsLowerCase(char32_t c);

// Appends the characters of `text` in the other case. Exact but for the
// ligatures and Greek letters with iota that become several capitals, which
// stay, and a final sigma.
void AppendLower(std::string_view text, std::string* out);
void AppendUpper(std::string_view text, std::string* out);

}  // namespace thermocline::text::jinja

#endif  // THERMOCLINE_TEXT_JINJA_CHARACTERS_H_
