#include "text/jinja/lexer.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <utility>

#include "text/jinja/characters.h"
#include "text/jinja/string_literal.h"

namespace thermocline::text::jinja {
namespace {

constexpr std::string_view kOperatorSigns[] = {
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
    "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool BeginsName(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

// Digits that single underscores may stand between; 0: none.
size_t DigitsLength(std::string_view text) {
  size_t n = 0;
  while (n < text.size() &&
         (IsDigit(text[n]) || (n > 0 && text[n] == '_' && text[n - 1] != '_' &&
                               n + 1 < text.size() && IsDigit(text[n + 1])))) {
    ++n;
  }
  return n;
}

// CR LF and CR become LF; one at the very end goes.
std::string WithPlainLineEnds(std::string_view source) {
  std::string plain;
  plain.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      plain += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      plain += source[i];
    }
  }
  if (plain.ends_with('\n')) plain.pop_back();
  return plain;
}

std::string_view WithoutEndSpace(std::string_view text) {
  while (!text.empty()) {
    const Character c = LastCharacter(text);
    if (!IsSpaceCharacter(c.code)) break;
    text.remove_suffix(c.num_bytes);
  }
  return text;
}

class Tokenizing {
 public:
  explicit Tokenizing(std::string source) : source_(std::move(source)) {}

  Result<std::vector<Token>> Run() {
    while (at_ < source_.size()) {
      const size_t mark = FindMark();
      const char kind = mark < source_.size() ? source_[mark + 1] : '\0';
      AddText(mark, kind);
      if (kind == '\0') break;
      Skip(2);
      if (Peek() == '-' || Peek() == '+') Skip(1);
      if (kind == '#') {
        TC_RETURN_IF_ERROR(SkipComment());
      } else if (kind == '%' && SkipRawBegin()) {
        TC_RETURN_IF_ERROR(AddRaw());
      } else {
        TC_RETURN_IF_ERROR(AddMark(kind));
      }
    }
    Add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  char Peek(size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  std::string_view Rest() const {
    return std::string_view(source_).substr(at_);
  }
  void Skip(size_t n) {
    for (; n > 0; --n) line_ += source_[at_++] == '\n';
  }
  void SkipSpace() {
    while (at_ < source_.size()) {
      const Character c = FirstCharacter(Rest());
      if (!IsSpaceCharacter(c.code)) return;
      Skip(c.num_bytes);
    }
  }
  void Add(TokenKind kind, std::string text) {
    tokens_.push_back({kind, line_, std::move(text)});
  }
  tl::unexpected<Error> FailHere(std::string_view what) const {
    return Fail(ErrorCode::kCorrupt, "line {}: {}", line_, what);
  }

  // The next {{, {% or {#; the source's end if there is none.
  size_t FindMark() const {
    size_t mark = at_;
    while ((mark = source_.find('{', mark)) != std::string::npos &&
           mark + 1 < source_.size()) {
      const char kind = source_[mark + 1];
      if (kind == '{' || kind == '%' || kind == '#') return mark;
      ++mark;
    }
    return source_.size();
  }

  // Takes the text in front of a mark, less the white space that the mark eats.
  void AddText(size_t mark, char kind) {
    const std::string_view all = Rest().substr(0, mark - at_);
    std::string_view text = all;
    const char sign = mark + 2 < source_.size() ? source_[mark + 2] : '\0';
    if (kind != '\0' && sign == '-') {
      text = WithoutEndSpace(text);
    } else if ((kind == '%' || kind == '#') && sign != '+') {
      const size_t line_begin = text.rfind('\n') + 1;  // 0: no line end
      const bool starts_line =
          line_begin > 0 || at_ == 0 || source_[at_ - 1] == '\n';
      if (starts_line && WithoutEndSpace(text.substr(line_begin)).empty()) {
        text = text.substr(0, line_begin);
      }
    }
    if (!text.empty()) Add(TokenKind::kText, std::string(text));
    Skip(all.size());
  }

  Status SkipComment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) return FailHere("a comment is not closed");
    const char sign = end > at_ ? source_[end - 1] : '\0';
    Skip(end + 2 - at_);
    AfterMark(sign);
    return {};
  }

  // Behind a statement's or comment's end.
  void AfterMark(char sign) {
    if (sign == '-') {
      SkipSpace();
    } else if (sign != '+' && Peek() == '\n') {
      Skip(1);
    }
  }

  // Past `raw %}`, if that comes.
  bool SkipRawBegin() {
    std::string_view rest = Rest();
    const auto skip_space = [&] {
      while (!rest.empty() && IsSpaceCharacter(FirstCharacter(rest).code)) {
        rest.remove_prefix(FirstCharacter(rest).num_bytes);
      }
    };
    skip_space();
    if (!rest.starts_with("raw")) return false;
    rest.remove_prefix(3);
    skip_space();
    const bool strips = rest.starts_with("-%}");
    if (!strips && !rest.starts_with("%}")) return false;
    Skip(Rest().size() - rest.size() + (strips ? 3 : 2));
    if (strips) SkipSpace();
    return true;
  }

  Status AddRaw() {
    const int line = line_;
    for (size_t mark = at_;
         (mark = source_.find("{%", mark)) != std::string::npos; mark += 2) {
      size_t at = mark + 2;
      const char sign = at < source_.size() ? source_[at] : '\0';
      if (sign == '-' || sign == '+') ++at;
      at = source_.find_first_not_of(" \t\n", at);
      if (at == std::string::npos || source_.compare(at, 6, "endraw") != 0) {
        continue;
      }
      at = source_.find_first_not_of(" \t\n", at + 6);
      const char end_sign = at == std::string::npos ? '\0' : source_[at];
      if (end_sign == '-' || end_sign == '+') ++at;
      if (at == std::string::npos || source_.compare(at, 2, "%}") != 0) {
        continue;
      }
      AddText(mark, '%');
      Skip(at + 2 - at_);
      AfterMark(end_sign);
      return {};
    }
    return Fail(ErrorCode::kCorrupt, "line {}: 'raw' is not closed", line);
  }

  // What stands between {{ and }}, or {% and %}.
  Status AddMark(char kind) {
    const bool is_print = kind == '{';
    const int line = line_;
    Add(is_print ? TokenKind::kPrintBegin : TokenKind::kStatementBegin, "");
    const std::string_view end = is_print ? "}}" : "%}";
    while (true) {
      SkipSpace();
      if (at_ >= source_.size()) {
        return Fail(ErrorCode::kCorrupt, "line {}: '{}' is not closed", line,
                    is_print ? "{{" : "{%");
      }
      if (open_.empty()) {
        const bool has_sign = Peek() == '-' || (Peek() == '+' && !is_print);
        if (Rest().substr(has_sign ? 1 : 0).starts_with(end)) {
          const char sign = has_sign ? Peek() : '\0';
          Add(is_print ? TokenKind::kPrintEnd : TokenKind::kStatementEnd, "");
          Skip(has_sign ? 3 : 2);
          if (sign == '-' || !is_print) AfterMark(sign);
          return {};
        }
      }
      TC_RETURN_IF_ERROR(AddInner());
    }
  }

  Status AddInner() {
    const char c = Peek();
    if (IsDigit(c)) return AddNumber();
    if (BeginsName(c)) {
      size_t n = 1;
      while (BeginsName(Peek(n)) || IsDigit(Peek(n))) ++n;
      Add(TokenKind::kName, std::string(Rest().substr(0, n)));
      Skip(n);
      return {};
    }
    if (c == '\'' || c == '"') return AddString(c);
    for (const std::string_view sign : kOperatorSigns) {
      if (!Rest().starts_with(sign)) continue;
      TC_RETURN_IF_ERROR(Balance(sign[0]));
      Add(TokenKind::kSign, std::string(sign));
      Skip(sign.size());
      return {};
    }
    return FailHere(
        fmt::format("'{}' means nothing here",
                    Rest().substr(0, FirstCharacter(Rest()).num_bytes)));
  }

  Status Balance(char sign) {
    if (sign == '(' || sign == '[' || sign == '{') {
      open_.push_back(sign == '(' ? ')' : sign == '[' ? ']' : '}');
    } else if (sign == ')' || sign == ']' || sign == '}') {
      if (open_.empty())
        return FailHere(fmt::format("'{}' closes nothing", sign));
      if (open_.back() != sign) {
        return FailHere(
            fmt::format("'{}' stands where '{}' is due", sign, open_.back()));
      }
      open_.pop_back();
    }
    return {};
  }

  Status AddNumber() {
    const std::string_view rest = Rest();
    size_t n = DigitsLength(rest);
    bool is_float = false;
    const bool is_behind_dot = at_ > 0 && source_[at_ - 1] == '.';
    if (rest.size() > 1 && rest[0] == '0' && IsBaseLetter(rest[1])) {
      return AddIntegerInBase();
    }
    if (!is_behind_dot) {
      if (rest.substr(n).starts_with('.')) {
        const size_t fraction = DigitsLength(rest.substr(n + 1));
        is_float = fraction > 0;
        if (is_float) n += 1 + fraction;
      }
      const size_t exponent = ExponentLength(rest.substr(n));
      is_float = is_float || exponent > 0;
      n += exponent;
    }
    std::string digits(rest.substr(0, n));
    std::erase(digits, '_');
    Add(is_float ? TokenKind::kFloat : TokenKind::kInteger, std::move(digits));
    Skip(n);
    return {};
  }

  static size_t ExponentLength(std::string_view text) {
    if (text.empty() || (text[0] != 'e' && text[0] != 'E')) return 0;
    const size_t sign =
        text.size() > 1 && (text[1] == '+' || text[1] == '-') ? 1 : 0;
    const size_t digits = DigitsLength(text.substr(1 + sign));
    return digits == 0 ? 0 : 1 + sign + digits;
  }

  static bool IsBaseLetter(char c) {
    return std::string_view("xXoObB").find(c) != std::string_view::npos;
  }

  Status AddIntegerInBase() {
    const char letter = Peek(1);
    const int base = letter == 'x' || letter == 'X'   ? 16
                     : letter == 'o' || letter == 'O' ? 8
                                                      : 2;
    size_t n = 2;
    while (std::isxdigit(static_cast<unsigned char>(Peek(n))) != 0 ||
           Peek(n) == '_') {
      ++n;
    }
    std::string digits(Rest().substr(2, n - 2));
    std::erase(digits, '_');
    size_t num_read = 0;
    uint64_t number = 0;
    for (; num_read < digits.size() && number >> 60 == 0; ++num_read) {
      const int digit = HexDigit(digits[num_read]);
      if (digit < 0 || digit >= base) break;
      number =
          number * static_cast<uint64_t>(base) + static_cast<uint64_t>(digit);
    }
    if (digits.empty() || num_read < digits.size()) {
      return FailHere("a number that is none, or too large");
    }
    Add(TokenKind::kInteger, fmt::format("{}", number));
    Skip(n);
    return {};
  }

  Status AddString(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) {
      end += source_[end] == '\\' ? 2 : 1;
    }
    if (end >= source_.size()) return FailHere("a text is not closed");
    Add(TokenKind::kString, UnescapeString(Rest().substr(1, end - at_ - 1)));
    Skip(end + 1 - at_);
    return {};
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  std::vector<char> open_;  // brackets, as what closes them
  std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> Tokenize(std::string_view source) {
  return Tokenizing(WithPlainLineEnds(source)).Run();
}

}  // namespace thermocline::text::jinja
