#include <charconv>
#include <limits>
#include <string>
#include <system_error>
#include <utility>

#include "text/jinja/parser.h"

namespace thermocline::text::jinja {
namespace {

Expression MakeLiteral(int line, Literal literal) {
  return {line, std::move(literal)};
}

}  // namespace

Expression ExpressionParser::WithSteps(Expression base,
                                       std::vector<Step> steps) {
  if (steps.empty()) return base;
  const int line = base.line;
  return {line,
          PostfixExpression{MakePointer(std::move(base)), std::move(steps)}};
}

Result<Expression> ExpressionParser::ParsePrimary() {
  switch (cursor_.Peek().kind) {
    case TokenKind::kName:
      return ParseName();
    case TokenKind::kString:
      return ParseString();
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return ParseNumber();
    default:
      break;
  }
  if (cursor_.SkipSign("(")) {
    TC_ASSIGN_OR_RETURN(Expression inner,
                        ParseItems(&ExpressionParser::ParseExpression, true));
    TC_RETURN_IF_ERROR(cursor_.ExpectSign(")"));
    return inner;
  }
  if (cursor_.IsSign("[")) return ParseList();
  if (cursor_.IsSign("{")) return ParseDict();
  return cursor_.FailHere("an expression is missing before " + cursor_.Here());
}

Result<Expression> ExpressionParser::ParseName() {
  const Token& token = cursor_.Next();
  if (token.text == "true" || token.text == "True") {
    return MakeLiteral(token.line, {true});
  }
  if (token.text == "false" || token.text == "False") {
    return MakeLiteral(token.line, {false});
  }
  if (token.text == "none" || token.text == "None") {
    return MakeLiteral(token.line, {std::monostate()});
  }
  return Expression{token.line, NameExpression{names_.IndexOf(token.text)}};
}

Result<Expression> ExpressionParser::ParseNumber() {
  const Token& token = cursor_.Next();
  const char* begin = token.text.data();
  const char* end = begin + token.text.size();
  if (token.kind == TokenKind::kFloat) {
    double number = 0;
    const auto read = std::from_chars(begin, end, number);
    if (read.ec == std::errc::result_out_of_range) {
      number = token.text.find("e-") == std::string::npos
                   ? std::numeric_limits<double>::infinity()
                   : 0.0;
    }
    return MakeLiteral(token.line, {number});
  }
  uint64_t number = 0;
  if (std::from_chars(begin, end, number).ec != std::errc()) {
    return Fail(ErrorCode::kUnsupported, "line {}: {} is past 64 bits",
                token.line, token.text);
  }
  constexpr uint64_t kMaxInt = std::numeric_limits<int64_t>::max();
  if (number > kMaxInt) return MakeLiteral(token.line, {number});
  return MakeLiteral(token.line, {static_cast<int64_t>(number)});
}

Result<Expression> ExpressionParser::ParseString() {
  const int line = cursor_.line();
  std::string text;
  while (cursor_.Peek().kind == TokenKind::kString) text += cursor_.Next().text;
  return MakeLiteral(line, {std::move(text)});
}

Result<Expression> ExpressionParser::ParseList() {
  const int line = cursor_.Next().line;
  ListExpression list{.is_tuple = false};
  while (!cursor_.IsSign("]")) {
    TC_ASSIGN_OR_RETURN(Expression item, ParseExpression());
    list.items.push_back(std::move(item));
    if (!cursor_.SkipSign(",")) break;
  }
  TC_RETURN_IF_ERROR(cursor_.ExpectSign("]"));
  return Expression{line, std::move(list)};
}

Result<Expression> ExpressionParser::ParseDict() {
  const int line = cursor_.Next().line;
  DictExpression dict;
  while (!cursor_.IsSign("}")) {
    TC_ASSIGN_OR_RETURN(Expression key, ParseExpression());
    TC_RETURN_IF_ERROR(cursor_.ExpectSign(":"));
    TC_ASSIGN_OR_RETURN(Expression value, ParseExpression());
    dict.entries.push_back({std::move(key), std::move(value)});
    if (!cursor_.SkipSign(",")) break;
  }
  TC_RETURN_IF_ERROR(cursor_.ExpectSign("}"));
  return Expression{line, std::move(dict)};
}

Status ExpressionParser::ParseAccess(std::vector<Step>* steps) {
  while (true) {
    if (cursor_.SkipSign(".")) {
      const Token& token = cursor_.Next();
      if (token.kind == TokenKind::kName) {
        steps->push_back({token.line, AttributeStep{token.text}});
      } else if (token.kind == TokenKind::kInteger && token.text.size() < 10) {
        const auto index = static_cast<int64_t>(std::stol(token.text));
        steps->push_back({token.line, ItemStep{MakePointer(
                                          MakeLiteral(token.line, {index}))}});
      } else {
        return Fail(ErrorCode::kCorrupt, "line {}: '.' needs a name",
                    token.line);
      }
    } else if (cursor_.IsSign("[")) {
      TC_RETURN_IF_ERROR(ParseSubscript(steps));
    } else if (cursor_.IsSign("(")) {
      TC_RETURN_IF_ERROR(ParseCall(steps));
    } else {
      return {};
    }
  }
}

// Null where no expression stands.
Result<ExpressionPtr> ExpressionParser::ParseSlicePart() {
  if (cursor_.IsSign(":") || cursor_.IsSign("]")) return ExpressionPtr();
  TC_ASSIGN_OR_RETURN(Expression part, ParseExpression());
  return MakePointer(std::move(part));
}

Status ExpressionParser::ParseSubscript(std::vector<Step>* steps) {
  const int line = cursor_.Next().line;
  if (cursor_.IsSign("]")) return cursor_.FailHere("'[]' holds no index");
  SliceStep slice;
  TC_ASSIGN_OR_RETURN(slice.start, ParseSlicePart());
  if (!cursor_.SkipSign(":")) {
    if (cursor_.IsSign(",")) {
      return Fail(ErrorCode::kUnsupported,
                  "line {}: several indices in one pair of brackets", line);
    }
    TC_RETURN_IF_ERROR(cursor_.ExpectSign("]"));
    steps->push_back({line, ItemStep{std::move(slice.start)}});
    return {};
  }
  TC_ASSIGN_OR_RETURN(slice.stop, ParseSlicePart());
  if (cursor_.SkipSign(":")) {
    TC_ASSIGN_OR_RETURN(slice.step, ParseSlicePart());
  }
  TC_RETURN_IF_ERROR(cursor_.ExpectSign("]"));
  steps->push_back({line, std::move(slice)});
  return {};
}

Result<std::string> ExpressionParser::ParseDottedName() {
  TC_ASSIGN_OR_RETURN(std::string name, cursor_.ExpectName());
  while (cursor_.SkipSign(".")) {
    TC_ASSIGN_OR_RETURN(const std::string part, cursor_.ExpectName());
    name += "." + part;
  }
  return name;
}

Status ExpressionParser::ParseFilters(std::vector<Step>* steps) {
  cursor_.SkipSign("|");
  do {
    TC_RETURN_IF_ERROR(ParseFilter(steps));
  } while (cursor_.SkipSign("|"));
  return {};
}

Status ExpressionParser::ParseFilter(std::vector<Step>* steps) {
  const int line = cursor_.line();
  FilterStep filter;
  TC_ASSIGN_OR_RETURN(filter.name, ParseDottedName());
  if (cursor_.IsSign("(")) {
    TC_ASSIGN_OR_RETURN(filter.arguments, ParseArguments());
  }
  steps->push_back({line, std::move(filter)});
  return {};
}

Status ExpressionParser::ParseTest(std::vector<Step>* steps) {
  const int line = cursor_.Next().line;
  TestStep test{.is_negated = cursor_.SkipName("not")};
  TC_ASSIGN_OR_RETURN(test.name, ParseDottedName());
  const TokenKind kind = cursor_.Peek().kind;
  const bool is_word = kind == TokenKind::kName && !cursor_.IsName("else") &&
                       !cursor_.IsName("or") && !cursor_.IsName("and") &&
                       !cursor_.IsName("in") && !cursor_.IsName("not") &&
                       !cursor_.IsName("if");
  if (cursor_.IsSign("(")) {
    TC_ASSIGN_OR_RETURN(test.arguments, ParseArguments());
  } else if (cursor_.IsName("is")) {
    return cursor_.FailHere("'is' behind a test needs parentheses");
  } else if (is_word || kind == TokenKind::kString ||
             kind == TokenKind::kInteger || kind == TokenKind::kFloat ||
             cursor_.IsSign("[") || cursor_.IsSign("{")) {
    TC_ASSIGN_OR_RETURN(Expression base, ParsePrimary());
    std::vector<Step> argument_steps;
    TC_RETURN_IF_ERROR(ParseAccess(&argument_steps));
    test.arguments.positional.push_back(
        WithSteps(std::move(base), std::move(argument_steps)));
  }
  steps->push_back({line, std::move(test)});
  return {};
}

Status ExpressionParser::ParseCall(std::vector<Step>* steps) {
  const int line = cursor_.line();
  CallStep call;
  TC_ASSIGN_OR_RETURN(call.arguments, ParseArguments());
  steps->push_back({line, std::move(call)});
  return {};
}

Result<Arguments> ExpressionParser::ParseArguments() {
  Arguments arguments;
  TC_RETURN_IF_ERROR(cursor_.ExpectSign("("));
  while (!cursor_.IsSign(")")) {
    if (cursor_.IsSign("*") || cursor_.IsSign("**")) {
      return Fail(ErrorCode::kUnsupported,
                  "line {}: arguments with '*' are not among what templates "
                  "have here",
                  cursor_.line());
    }
    if (cursor_.Peek().kind == TokenKind::kName && cursor_.IsSign("=", 1)) {
      std::string name = cursor_.Next().text;
      cursor_.Next();
      TC_ASSIGN_OR_RETURN(Expression value, ParseExpression());
      arguments.named.push_back({std::move(name), std::move(value)});
    } else {
      if (!arguments.named.empty()) {
        return cursor_.FailHere("an argument without a name behind named ones");
      }
      TC_ASSIGN_OR_RETURN(Expression value, ParseExpression());
      arguments.positional.push_back(std::move(value));
    }
    if (!cursor_.SkipSign(",")) break;
  }
  TC_RETURN_IF_ERROR(cursor_.ExpectSign(")"));
  return arguments;
}

}  // namespace thermocline::text::jinja
