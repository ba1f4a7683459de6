#include <utility>

#include "text/jinja/parser.h"

namespace thermocline::text::jinja {
namespace {

struct SignedOperator {
  std::string_view sign;
  Operator op;
};

constexpr SignedOperator kComparisons[] = {
    {"==", Operator::kEqual},  {"!=", Operator::kNotEqual},
    {"<", Operator::kLess},    {"<=", Operator::kLessOrEqual},
    {">", Operator::kGreater}, {">=", Operator::kGreaterOrEqual},
};

// From what binds loosest on; `~` stands between the first two.
constexpr int kSumLevel = 0;
constexpr int kProductLevel = 1;
constexpr int kPowerLevel = 2;
constexpr struct {
  int level;
  SignedOperator what;
} kArithmetic[] = {
    {kSumLevel, {"+", Operator::kAdd}},
    {kSumLevel, {"-", Operator::kSubtract}},
    {kProductLevel, {"*", Operator::kMultiply}},
    {kProductLevel, {"/", Operator::kDivide}},
    {kProductLevel, {"//", Operator::kFloorDivide}},
    {kProductLevel, {"%", Operator::kModulo}},
    {kPowerLevel, {"**", Operator::kPower}},
};

}  // namespace

Result<Expression> ExpressionParser::ParseExpression() {
  const Cursor::Nested nested(cursor_);
  TC_RETURN_IF_ERROR(nested.Check());
  TC_ASSIGN_OR_RETURN(Expression result, ParseOr());
  const int line = cursor_.line();
  if (!cursor_.SkipName("if")) return result;
  TC_ASSIGN_OR_RETURN(Expression condition, ParseOr());
  ConditionalExpression whole{MakePointer(std::move(result)),
                              MakePointer(std::move(condition)), nullptr};
  if (cursor_.SkipName("else")) {
    TC_ASSIGN_OR_RETURN(Expression otherwise, ParseExpression());
    whole.otherwise = MakePointer(std::move(otherwise));
  }
  return Expression{line, std::move(whole)};
}

Result<Expression> ExpressionParser::ParseTuple() {
  return ParseItems(&ExpressionParser::ParseExpression, false);
}

Result<Expression> ExpressionParser::ParseUnconditional() {
  const Cursor::Nested nested(cursor_);
  TC_RETURN_IF_ERROR(nested.Check());
  return ParseItems(&ExpressionParser::ParseOr, false);
}

Result<Expression> ExpressionParser::ParseItems(Part part,
                                                bool in_parentheses) {
  const int line = cursor_.line();
  ListExpression items{.is_tuple = false};
  while (true) {
    const TokenKind kind = cursor_.Peek().kind;
    if (kind == TokenKind::kPrintEnd || kind == TokenKind::kStatementEnd ||
        cursor_.IsSign(")")) {
      break;
    }
    TC_ASSIGN_OR_RETURN(Expression item, (this->*part)());
    items.items.push_back(std::move(item));
    if (!cursor_.SkipSign(",")) break;
    items.is_tuple = true;
  }
  if (!items.is_tuple && items.items.size() == 1) {
    return std::move(items.items[0]);
  }
  if (items.items.empty() && !in_parentheses) {
    return cursor_.FailHere("an expression is missing before " +
                            cursor_.Here());
  }
  items.is_tuple = true;
  return Expression{line, std::move(items)};
}

Result<Expression> ExpressionParser::ParseLogic(bool is_and) {
  const int line = cursor_.line();
  LogicExpression logic{.is_and = is_and};
  do {
    TC_ASSIGN_OR_RETURN(Expression item,
                        is_and ? ParseNot() : ParseLogic(true));
    logic.items.push_back(std::move(item));
  } while (cursor_.SkipName(is_and ? "and" : "or"));
  if (logic.items.size() == 1) return std::move(logic.items[0]);
  return Expression{line, std::move(logic)};
}

Result<Expression> ExpressionParser::ParseNot() {
  const int line = cursor_.line();
  if (!cursor_.SkipName("not")) return ParseComparison();
  const Cursor::Nested nested(cursor_);
  TC_RETURN_IF_ERROR(nested.Check());
  TC_ASSIGN_OR_RETURN(Expression operand, ParseNot());
  return Expression{line, NotExpression{MakePointer(std::move(operand))}};
}

bool ExpressionParser::SkipComparison(Operator* op) {
  for (const SignedOperator& comparison : kComparisons) {
    *op = comparison.op;
    if (cursor_.SkipSign(comparison.sign)) return true;
  }
  *op = Operator::kIn;
  if (cursor_.SkipName("in")) return true;
  *op = Operator::kNotIn;
  if (!cursor_.IsName("not") || !cursor_.IsName("in", 1)) return false;
  cursor_.Next();
  cursor_.Next();
  return true;
}

Result<Expression> ExpressionParser::ParseComparison() {
  const int line = cursor_.line();
  TC_ASSIGN_OR_RETURN(Expression first, ParseArithmetic(kSumLevel));
  ComparisonExpression whole;
  Operator op;
  while (SkipComparison(&op)) {
    TC_ASSIGN_OR_RETURN(Expression operand, ParseArithmetic(kSumLevel));
    whole.rest.push_back({op, std::move(operand)});
  }
  if (whole.rest.empty()) return first;
  whole.first = MakePointer(std::move(first));
  return Expression{line, std::move(whole)};
}

bool ExpressionParser::SkipArithmetic(int level, Operator* op) {
  for (const auto& candidate : kArithmetic) {
    *op = candidate.what.op;
    if (candidate.level == level && cursor_.SkipSign(candidate.what.sign)) {
      return true;
    }
  }
  return false;
}

Result<Expression> ExpressionParser::ParseArithmetic(int level) {
  const auto parse_operand = [&]() -> Result<Expression> {
    if (level == kSumLevel) return ParseConcat();
    if (level == kProductLevel) return ParseArithmetic(kPowerLevel);
    return ParseUnary(true);
  };
  const int line = cursor_.line();
  TC_ASSIGN_OR_RETURN(Expression first, parse_operand());
  ArithmeticExpression whole;
  Operator op;
  while (SkipArithmetic(level, &op)) {
    TC_ASSIGN_OR_RETURN(Expression operand, parse_operand());
    whole.rest.push_back({op, std::move(operand)});
  }
  if (whole.rest.empty()) return first;
  whole.first = MakePointer(std::move(first));
  return Expression{line, std::move(whole)};
}

Result<Expression> ExpressionParser::ParseConcat() {
  const int line = cursor_.line();
  ConcatExpression concat;
  do {
    TC_ASSIGN_OR_RETURN(Expression item, ParseArithmetic(kProductLevel));
    concat.items.push_back(std::move(item));
  } while (cursor_.SkipSign("~"));
  if (concat.items.size() == 1) return std::move(concat.items[0]);
  return Expression{line, std::move(concat)};
}

Result<Expression> ExpressionParser::ParseUnary(bool with_filters) {
  const int line = cursor_.line();
  Expression base;
  const bool is_minus = cursor_.IsSign("-");
  if (is_minus || cursor_.IsSign("+")) {
    const Cursor::Nested nested(cursor_);
    TC_RETURN_IF_ERROR(nested.Check());
    cursor_.Next();
    TC_ASSIGN_OR_RETURN(Expression operand, ParseUnary(false));
    base = {line,
            SignExpression{is_minus ? Operator::kSubtract : Operator::kAdd,
                           MakePointer(std::move(operand))}};
  } else {
    TC_ASSIGN_OR_RETURN(base, ParsePrimary());
  }
  std::vector<Step> steps;
  TC_RETURN_IF_ERROR(ParseAccess(&steps));
  while (with_filters) {
    if (cursor_.IsSign("|")) {
      TC_RETURN_IF_ERROR(ParseFilters(&steps));
    } else if (cursor_.IsName("is")) {
      TC_RETURN_IF_ERROR(ParseTest(&steps));
    } else if (cursor_.IsSign("(")) {
      TC_RETURN_IF_ERROR(ParseCall(&steps));
    } else {
      break;
    }
  }
  return WithSteps(std::move(base), std::move(steps));
}

}  // namespace thermocline::text::jinja
