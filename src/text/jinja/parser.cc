#include "text/jinja/parser.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace thermocline::text::jinja {
namespace {

constexpr std::string_view kUnsupportedStatements[] = {
    "include", "import", "from",  "extends", "block",      "call",
    "do",      "trans",  "print", "debug",   "autoescape", "pluralize"};

constexpr std::string_view kInnerStatements[] = {
    "elif",     "else",      "endif",   "endfor",        "endset",
    "endmacro", "endfilter", "endwith", "endgeneration", "endraw"};

bool Has(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

class StatementParser {
 public:
  StatementParser(const std::vector<Token>& tokens, int nesting)
      : cursor_(tokens, nesting), expressions_(cursor_, names_) {}

  Result<Parsed> Run() {
    Parsed parsed;
    TC_ASSIGN_OR_RETURN(parsed.body, ParseBody({}, "", 0));
    parsed.names = names_.Take();
    return parsed;
  }

 private:
  // Statements up to one of `ends`, whose name is the next token; of a whole
  // template (no ends), up to its end. `opener` and its line are for errors.
  Result<Body> ParseBody(std::initializer_list<std::string_view> ends,
                         std::string_view opener, int line) {
    const Cursor::Nested nested(cursor_);
    TC_RETURN_IF_ERROR(nested.Check());
    Body body;
    while (true) {
      const Token& token = cursor_.Next();
      if (token.kind == TokenKind::kText) {
        body.push_back({token.line, TextStatement{token.text}});
      } else if (token.kind == TokenKind::kPrintBegin) {
        TC_ASSIGN_OR_RETURN(Expression value, expressions_.ParseTuple());
        body.push_back({token.line, PrintStatement{std::move(value)}});
        TC_RETURN_IF_ERROR(cursor_.Expect(TokenKind::kPrintEnd));
      } else if (token.kind == TokenKind::kEnd) {
        if (ends.size() == 0) return body;
        return Fail(ErrorCode::kCorrupt, "line {}: '{}' is not closed", line,
                    opener);
      } else {
        const Token& name = cursor_.Peek();
        if (name.kind == TokenKind::kName && Has(ends, name.text)) return body;
        TC_ASSIGN_OR_RETURN(Statement statement, ParseStatement());
        body.push_back(std::move(statement));
        TC_RETURN_IF_ERROR(cursor_.Expect(TokenKind::kStatementEnd));
      }
    }
  }

  // The body of a statement whose own tokens end here, up to its end's name,
  // which is read too.
  Result<Body> ParseWhole(std::string_view opener, std::string_view end,
                          int line) {
    TC_RETURN_IF_ERROR(cursor_.Expect(TokenKind::kStatementEnd));
    TC_ASSIGN_OR_RETURN(Body body, ParseBody({end}, opener, line));
    cursor_.Next();
    return body;
  }

  Result<Statement> ParseStatement() {
    const int line = cursor_.line();
    TC_ASSIGN_OR_RETURN(const std::string name, cursor_.ExpectName());
    if (name == "if") return ParseIf(line);
    if (name == "for") return ParseFor(line);
    if (name == "set") return ParseSet(line);
    if (name == "macro") return ParseMacro(line);
    if (name == "filter") return ParseFilterBlock(line);
    if (name == "with") return ParseWith(line);
    if (name == "generation") return ParseGeneration(line);
    if (name == "break" || name == "continue") return ParseJump(line, name);
    if (Has(kUnsupportedStatements, name)) {
      return Fail(ErrorCode::kUnsupported,
                  "line {}: the statement '{}' is not among those that "
                  "templates have here",
                  line, name);
    }
    if (Has(kInnerStatements, name)) {
      return Fail(ErrorCode::kCorrupt, "line {}: '{}' belongs to nothing here",
                  line, name);
    }
    return Fail(ErrorCode::kCorrupt, "line {}: there is no statement '{}'",
                line, name);
  }

  Result<Statement> ParseIf(int line) {
    IfStatement statement;
    while (true) {
      TC_ASSIGN_OR_RETURN(Expression condition,
                          expressions_.ParseUnconditional());
      TC_RETURN_IF_ERROR(cursor_.Expect(TokenKind::kStatementEnd));
      TC_ASSIGN_OR_RETURN(Body body,
                          ParseBody({"elif", "else", "endif"}, "if", line));
      statement.branches.push_back({std::move(condition), std::move(body)});
      if (!cursor_.SkipName("elif")) break;
    }
    if (cursor_.SkipName("else")) {
      TC_ASSIGN_OR_RETURN(statement.otherwise, ParseWhole("if", "endif", line));
    } else {
      cursor_.Next();
    }
    return Statement{line, std::move(statement)};
  }

  // Names with commas, in parentheses or not.
  Result<bool> ParseNames(std::vector<int>* names) {
    const bool in_parentheses = cursor_.SkipSign("(");
    bool has_comma = false;
    while (true) {
      if (cursor_.IsSign("(")) {
        return Fail(ErrorCode::kUnsupported,
                    "line {}: names within names of a 'for'", cursor_.line());
      }
      TC_ASSIGN_OR_RETURN(const std::string name, cursor_.ExpectName());
      names->push_back(names_.IndexOf(name));
      if (!cursor_.SkipSign(",")) break;
      has_comma = true;
      if (cursor_.IsName("in") || cursor_.IsSign(")")) break;
    }
    if (in_parentheses) TC_RETURN_IF_ERROR(cursor_.ExpectSign(")"));
    return has_comma;
  }

  Result<Statement> ParseFor(int line) {
    ForStatement statement;
    TC_ASSIGN_OR_RETURN(statement.unpacks, ParseNames(&statement.targets));
    if (!cursor_.SkipName("in")) {
      return cursor_.FailHere("'in' is missing before " + cursor_.Here());
    }
    TC_ASSIGN_OR_RETURN(statement.items, expressions_.ParseUnconditional());
    if (cursor_.SkipName("if")) {
      TC_ASSIGN_OR_RETURN(Expression condition, expressions_.ParseExpression());
      statement.condition = MakePointer(std::move(condition));
    }
    if (cursor_.IsName("recursive")) {
      return Fail(ErrorCode::kUnsupported,
                  "line {}: a 'for' that is 'recursive' is not among what "
                  "templates have here",
                  line);
    }
    TC_RETURN_IF_ERROR(cursor_.Expect(TokenKind::kStatementEnd));
    ++num_loops_;
    TC_ASSIGN_OR_RETURN(statement.body,
                        ParseBody({"else", "endfor"}, "for", line));
    --num_loops_;
    if (cursor_.SkipName("else")) {
      TC_ASSIGN_OR_RETURN(statement.otherwise,
                          ParseWhole("for", "endfor", line));
    } else {
      cursor_.Next();
    }
    return Statement{line, std::move(statement)};
  }

  Result<Target> ParseTarget() {
    Target target;
    TC_ASSIGN_OR_RETURN(const std::string name, cursor_.ExpectName());
    target.name = names_.IndexOf(name);
    if (cursor_.SkipSign(".")) {
      TC_ASSIGN_OR_RETURN(target.attribute, cursor_.ExpectName());
    }
    return target;
  }

  Result<Statement> ParseSet(int line) {
    SetStatement statement{.targets = {}, .unpacks = false, .value = {}};
    const bool in_parentheses = cursor_.SkipSign("(");
    do {
      TC_ASSIGN_OR_RETURN(Target target, ParseTarget());
      statement.targets.push_back(std::move(target));
      const bool has_comma = cursor_.SkipSign(",");
      statement.unpacks = statement.unpacks || has_comma;
      if (!has_comma) break;
    } while (cursor_.Peek().kind == TokenKind::kName);
    if (in_parentheses) TC_RETURN_IF_ERROR(cursor_.ExpectSign(")"));
    if (cursor_.SkipSign("=")) {
      TC_ASSIGN_OR_RETURN(statement.value, expressions_.ParseTuple());
      return Statement{line, std::move(statement)};
    }
    if (statement.unpacks) {
      return cursor_.FailHere("'=' is missing before " + cursor_.Here());
    }
    BlockStatement block{.target = std::move(statement.targets)};
    if (cursor_.IsSign("|")) {
      TC_RETURN_IF_ERROR(expressions_.ParseFilters(&block.filters));
    }
    TC_ASSIGN_OR_RETURN(block.body, ParseWhole("set", "endset", line));
    return Statement{line, std::move(block)};
  }

  Result<Statement> ParseFilterBlock(int line) {
    BlockStatement block;
    TC_RETURN_IF_ERROR(expressions_.ParseFilters(&block.filters));
    TC_ASSIGN_OR_RETURN(block.body, ParseWhole("filter", "endfilter", line));
    return Statement{line, std::move(block)};
  }

  Status ParseParameters(MacroStatement* macro) {
    TC_RETURN_IF_ERROR(cursor_.ExpectSign("("));
    while (!cursor_.IsSign(")")) {
      TC_ASSIGN_OR_RETURN(const std::string name, cursor_.ExpectName());
      macro->parameters.emplace_back(names_.IndexOf(name), name);
      if (cursor_.SkipSign("=")) {
        TC_ASSIGN_OR_RETURN(Expression value, expressions_.ParseExpression());
        macro->defaults.push_back(std::move(value));
      } else if (!macro->defaults.empty()) {
        return cursor_.FailHere("a parameter without a default behind others");
      }
      if (!cursor_.SkipSign(",")) break;
    }
    return cursor_.ExpectSign(")");
  }

  Result<Statement> ParseMacro(int line) {
    MacroStatement macro;
    TC_ASSIGN_OR_RETURN(macro.own_name, cursor_.ExpectName());
    macro.name = names_.IndexOf(macro.own_name);
    TC_RETURN_IF_ERROR(ParseParameters(&macro));
    const int num_loops = std::exchange(num_loops_, 0);
    const size_t begin = cursor_.position();
    TC_ASSIGN_OR_RETURN(macro.body, ParseWhole("macro", "endmacro", line));
    num_loops_ = num_loops;
    macro.takes_varargs = cursor_.NamesSince(begin, "varargs");
    macro.takes_kwargs = cursor_.NamesSince(begin, "kwargs");
    return Statement{line, std::move(macro)};
  }

  Result<Statement> ParseWith(int line) {
    WithStatement with;
    while (cursor_.Peek().kind == TokenKind::kName) {
      TC_ASSIGN_OR_RETURN(const std::string name, cursor_.ExpectName());
      TC_RETURN_IF_ERROR(cursor_.ExpectSign("="));
      TC_ASSIGN_OR_RETURN(Expression value, expressions_.ParseExpression());
      with.values.emplace_back(names_.IndexOf(name), std::move(value));
      if (!cursor_.SkipSign(",")) break;
    }
    TC_ASSIGN_OR_RETURN(with.body, ParseWhole("with", "endwith", line));
    return Statement{line, std::move(with)};
  }

  Result<Statement> ParseGeneration(int line) {
    WithStatement statement;
    TC_ASSIGN_OR_RETURN(statement.body,
                        ParseWhole("generation", "endgeneration", line));
    return Statement{line, std::move(statement)};
  }

  Result<Statement> ParseJump(int line, const std::string& name) {
    if (num_loops_ == 0) {
      return Fail(ErrorCode::kCorrupt, "line {}: '{}' outside of a 'for'", line,
                  name);
    }
    if (name == "break") return Statement{line, BreakStatement{}};
    return Statement{line, ContinueStatement{}};
  }

  Names names_;
  Cursor cursor_;
  ExpressionParser expressions_;
  int num_loops_ = 0;  // around here, within the macro
};

}  // namespace

int Names::IndexOf(std::string_view name) {
  const auto found = indices_.find(name);
  if (found != indices_.end()) return found->second;
  const int index = static_cast<int>(names_.size());
  names_.emplace_back(name);
  indices_.emplace(name, index);
  return index;
}

const Token& Cursor::Next() {
  const Token& token = Peek();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool Cursor::SkipSign(std::string_view sign) {
  const bool is_here = IsSign(sign);
  if (is_here) Next();
  return is_here;
}

bool Cursor::SkipName(std::string_view name) {
  const bool is_here = IsName(name);
  if (is_here) Next();
  return is_here;
}

Status Cursor::ExpectSign(std::string_view sign) {
  if (SkipSign(sign)) return {};
  return FailHere(fmt::format("'{}' is missing before {}", sign, Here()));
}

Status Cursor::Expect(TokenKind kind) {
  if (Peek().kind == kind) {
    Next();
    return {};
  }
  return FailHere(fmt::format("'{}' is missing before {}",
                              kind == TokenKind::kPrintEnd ? "}}" : "%}",
                              Here()));
}

Result<std::string> Cursor::ExpectName() {
  if (Peek().kind != TokenKind::kName) {
    return FailHere("a name is missing before " + Here());
  }
  return Next().text;
}

tl::unexpected<Error> Cursor::FailHere(std::string_view what) const {
  return Fail(ErrorCode::kCorrupt, "line {}: {}", line(), what);
}

std::string Cursor::Here() const {
  constexpr size_t kMaxShown = 40;
  switch (Peek().kind) {
    case TokenKind::kPrintEnd:
      return "'}}'";
    case TokenKind::kStatementEnd:
      return "'%}'";
    case TokenKind::kString:
      return "a text";
    case TokenKind::kEnd:
      return "the end";
    default:
      return fmt::format("'{}'",
                         std::string_view(Peek().text).substr(0, kMaxShown));
  }
}

bool Cursor::NamesSince(size_t begin, std::string_view name) const {
  return std::any_of(tokens_.begin() + static_cast<ptrdiff_t>(begin),
                     tokens_.begin() + static_cast<ptrdiff_t>(at_),
                     [name](const Token& token) {
                       return token.kind == TokenKind::kName &&
                              token.text == name;
                     });
}

Status Cursor::Nested::Check() const {
  if (cursor_.nesting_left_ >= 0) return {};
  return Fail(ErrorCode::kResourceExhausted, "line {}: nested too deep",
              cursor_.line());
}

Result<Parsed> ParseTemplate(std::string_view source, int nesting) {
  TC_ASSIGN_OR_RETURN(const std::vector<Token> tokens, Tokenize(source));
  return StatementParser(tokens, nesting).Run();
}

}  // namespace thermocline::text::jinja
