// A template as a tree. Its depth is bounded by Limits.nesting, so what walks
// it, and its destructors, may do so by recursion: what goes on and on in
// templates (a + b + c ..., a.b.c ..., elif) is a list in one node.
#ifndef THERMOCLINE_TEXT_JINJA_AST_H_
#define THERMOCLINE_TEXT_JINJA_AST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace thermocline::text::jinja {

enum class Operator : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kEqual,
  kNotEqual,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
  kIn,
  kNotIn,
};

// As a template writes it.
inline std::string_view SignOf(Operator op) {
  constexpr std::string_view kSigns[] = {"+",  "-",  "*",  "/",  "//",
                                         "%",  "**", "==", "!=", "<",
                                         "<=", ">",  ">=", "in", "not in"};
  return kSigns[static_cast<size_t>(op)];
}

struct Expression;
struct DictEntry;
struct Operand;
struct NamedArgument;
using ExpressionPtr = std::unique_ptr<const Expression>;

struct Literal {
  // None, bool, int, past int64_t, float, text.
  std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string>
      value;
};
struct NameExpression {
  int name;  // index into the template's names
};
struct ListExpression {
  bool is_tuple;
  std::vector<Expression> items;
};
struct DictExpression {
  std::vector<DictEntry> entries;
};
struct SignExpression {
  Operator sign;  // kAdd or kSubtract
  ExpressionPtr operand;
};
struct NotExpression {
  ExpressionPtr operand;
};
// first op operand op operand ..., from the left.
struct ArithmeticExpression {
  ExpressionPtr first;
  std::vector<Operand> rest;
};
// The same, but as Python chains comparisons: a < b < c.
struct ComparisonExpression {
  ExpressionPtr first;
  std::vector<Operand> rest;
};
// a ~ b ~ c.
struct ConcatExpression {
  std::vector<Expression> items;
};
struct LogicExpression {
  bool is_and;
  std::vector<Expression> items;
};
// then if condition else otherwise.
struct ConditionalExpression {
  ExpressionPtr then;
  ExpressionPtr condition;
  ExpressionPtr otherwise;  // null: undefined
};

struct Arguments {
  std::vector<Expression> positional;
  std::vector<NamedArgument> named;
};

// What may stand behind an expression.
struct AttributeStep {  // .name
  std::string name;
};
struct ItemStep {  // [key]
  ExpressionPtr key;
};
struct SliceStep {  // [start:stop:step], null where nothing stands
  ExpressionPtr start, stop, step;
};
struct CallStep {  // (...)
  Arguments arguments;
};
struct FilterStep {  // | name(...)
  std::string name;
  Arguments arguments;
};
struct TestStep {  // is [not] name(...)
  bool is_negated;
  std::string name;
  Arguments arguments;
};
struct Step {
  int line;
  std::variant<AttributeStep, ItemStep, SliceStep, CallStep, FilterStep,
               TestStep>
      what;
};
struct PostfixExpression {
  ExpressionPtr base;
  std::vector<Step> steps;
};

struct Expression {
  int line = 0;
  std::variant<Literal, NameExpression, ListExpression, DictExpression,
               SignExpression, NotExpression, ArithmeticExpression,
               ComparisonExpression, ConcatExpression, LogicExpression,
               ConditionalExpression, PostfixExpression>
      what;
};

inline ExpressionPtr MakePointer(Expression expression) {
  return std::make_unique<const Expression>(std::move(expression));
}

struct DictEntry {
  Expression key, value;
};
// What stands behind an operator, and the operator.
struct Operand {
  Operator op;
  Expression operand;
};
struct NamedArgument {
  std::string name;
  Expression value;
};

struct Statement;
using Body = std::vector<Statement>;

struct TextStatement {
  std::string text;
};
struct PrintStatement {
  Expression value;
};
struct Branch;
struct IfStatement {
  std::vector<Branch> branches;
  Body otherwise;
};
// A name, or name.attribute, that a value is given to.
struct Target {
  int name;
  std::string attribute;  // empty: the name itself
};
struct ForStatement {
  std::vector<int> targets;  // one that is no list of one: `unpacks`
  bool unpacks;
  Expression items;
  ExpressionPtr condition;  // null: all items
  Body body;
  Body otherwise;
};
struct SetStatement {
  std::vector<Target> targets;
  bool unpacks;
  Expression value;
};
// {% set target | filter %}body{% endset %}, {% filter ... %}: the filters are
// FilterSteps.
struct BlockStatement {
  std::vector<Target> target;  // none: it is printed
  std::vector<Step> filters;
  Body body;
};
struct MacroStatement {
  int name;
  std::string own_name;
  std::vector<std::pair<int, std::string>> parameters;
  std::vector<Expression> defaults;  // of the last parameters
  bool takes_varargs = false;        // its body names `varargs`
  bool takes_kwargs = false;
  Body body;
};
// {% with a = 1 %}, and {% generation %}, which gives no names.
struct WithStatement {
  std::vector<std::pair<int, Expression>> values;
  Body body;
};
struct BreakStatement {};
struct ContinueStatement {};

struct Statement {
  int line = 0;
  std::variant<TextStatement, PrintStatement, IfStatement, ForStatement,
               SetStatement, BlockStatement, MacroStatement, WithStatement,
               BreakStatement, ContinueStatement>
      what;
};

struct Branch {
  Expression condition;
  Body body;
};

}  // namespace thermocline::text::jinja

#endif  // THERMOCLINE_TEXT_JINJA_AST_H_
