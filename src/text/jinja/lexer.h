// A template's source as tokens: texts between marks, and what stands within
// {{ }} and {% %}. White space goes as Jinja2 has it go with trim_blocks and
// lstrip_blocks.
#ifndef THERMOCLINE_TEXT_JINJA_LEXER_H_
#define THERMOCLINE_TEXT_JINJA_LEXER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace thermocline::text::jinja {

enum class TokenKind : uint8_t {
  kText,  // outside of marks
  kPrintBegin,
  kPrintEnd,
  kStatementBegin,
  kStatementEnd,
  kName,
  kString,
  kInteger,  // text: its digits, in base 10, without underscores
  kFloat,
  kSign,  // an operator or a bracket
  kEnd,
};

struct Token {
  TokenKind kind;
  int line;
  std::string text;  // of strings what they stand for
};

// The last token is kEnd. kCorrupt, with the line: what is no token, brackets
// and marks that are not closed.
Result<std::vector<Token>> Tokenize(std::string_view source);

}  // namespace thermocline::text::jinja

#endif  // THERMOCLINE_TEXT_JINJA_LEXER_H_
