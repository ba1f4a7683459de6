// Tokens to the tree of ast.h.
#ifndef THERMOCLINE_TEXT_JINJA_PARSER_H_
#define THERMOCLINE_TEXT_JINJA_PARSER_H_

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace thermocline::text::jinja {

// A template, ready to run.
struct Parsed {
  std::vector<std::string> names;  // of all variables that it names
  Body body;
};

// kCorrupt, kUnsupported and kResourceExhausted as Template::Parse has them.
Result<Parsed> ParseTemplate(std::string_view source, int nesting);

// Names and their indices.
class Names {
 public:
  int IndexOf(std::string_view name);
  std::vector<std::string> Take() { return std::move(names_); }

 private:
  std::vector<std::string> names_;
  std::map<std::string, int, std::less<>> indices_;
};

// A place in a row of tokens, and how deep it is nested.
class Cursor {
 public:
  Cursor(const std::vector<Token>& tokens, int nesting)
      : tokens_(tokens), nesting_left_(nesting) {}

  const Token& Peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  const Token& Next();
  int line() const { return Peek().line; }
  size_t position() const { return at_; }
  // Whether a token from `begin` up to here is the name.
  bool NamesSince(size_t begin, std::string_view name) const;
  bool IsSign(std::string_view sign, size_t ahead = 0) const {
    return Peek(ahead).kind == TokenKind::kSign && Peek(ahead).text == sign;
  }
  bool IsName(std::string_view name, size_t ahead = 0) const {
    return Peek(ahead).kind == TokenKind::kName && Peek(ahead).text == name;
  }
  bool SkipSign(std::string_view sign);
  bool SkipName(std::string_view name);
  Status ExpectSign(std::string_view sign);
  Status Expect(TokenKind kind);
  Result<std::string> ExpectName();

  // kCorrupt: `what`, at this place.
  tl::unexpected<Error> FailHere(std::string_view what) const;
  // "'x'", "the statement's end", ...: the token here.
  std::string Here() const;

  // Deeper for as long as the Nested lives.
  class Nested {
   public:
    explicit Nested(Cursor& cursor) : cursor_(cursor) {
      --cursor_.nesting_left_;
    }
    ~Nested() { ++cursor_.nesting_left_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    // kResourceExhausted: too deep.
    Status Check() const;

   private:
    Cursor& cursor_;
  };

 private:
  const std::vector<Token>& tokens_;
  size_t at_ = 0;
  int nesting_left_;
};

class ExpressionParser {
 public:
  ExpressionParser(Cursor& cursor, Names& names)
      : cursor_(cursor), names_(names) {}

  Result<Expression> ParseExpression();
  // An expression, or several with commas, which are a tuple.
  Result<Expression> ParseTuple();
  // What stands behind `for ... in`: its `if` is not part of it.
  Result<Expression> ParseUnconditional();
  // name(...) of a filter, and those behind further bars.
  Status ParseFilters(std::vector<Step>* steps);

 private:
  using Part = Result<Expression> (ExpressionParser::*)();

  Result<Expression> ParseItems(Part part, bool in_parentheses);
  Result<Expression> ParseLogic(bool is_and);
  Result<Expression> ParseOr() { return ParseLogic(false); }
  Result<Expression> ParseNot();
  Result<Expression> ParseComparison();
  bool SkipComparison(Operator* op);
  Result<Expression> ParseArithmetic(int level);
  bool SkipArithmetic(int level, Operator* op);
  Result<Expression> ParseConcat();
  Result<Expression> ParseUnary(bool with_filters);
  Result<Expression> ParsePrimary();
  Result<Expression> ParseName();
  Result<Expression> ParseNumber();
  Result<Expression> ParseString();
  Result<Expression> ParseList();
  Result<Expression> ParseDict();
  Status ParseAccess(std::vector<Step>* steps);
  Status ParseSubscript(std::vector<Step>* steps);
  Result<ExpressionPtr> ParseSlicePart();
  Status ParseFilter(std::vector<Step>* steps);
  Status ParseTest(std::vector<Step>* steps);
  Status ParseCall(std::vector<Step>* steps);
  Result<Arguments> ParseArguments();
  Result<std::string> ParseDottedName();
  static Expression WithSteps(Expression base, std::vector<Step> steps);

  Cursor& cursor_;
  Names& names_;
};

}  // namespace thermocline::text::jinja

#endif  // THERMOCLINE_TEXT_JINJA_PARSER_H_
