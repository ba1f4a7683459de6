#include <cstdint>
#include <string_view>

#include "text/jinja/ast.h"
#include "text/jinja/builtins.h"
#include "text/jinja/characters.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"

namespace thermocline::text::jinja {
namespace {

template <bool (*kIs)(const Value&)>
Result<bool> IsSuch(Runtime&, const Value& input, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {}));
  return kIs(input);
}

template <Operator kOp>
Result<bool> Compares(Runtime& runtime, const Value& input, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"other"}, 1));
  return Compare(runtime, kOp, input, bound[0]);
}

bool IsDefinedValue(const Value& value) {
  return value.kind != Kind::kUndefined;
}
bool IsUndefinedValue(const Value& value) { return !IsDefinedValue(value); }
bool IsNoneValue(const Value& value) { return value.kind == Kind::kNone; }
bool IsBoolean(const Value& value) { return value.kind == Kind::kBool; }
bool IsTrueValue(const Value& value) {
  return value.kind == Kind::kBool && value.truth;
}
bool IsFalseValue(const Value& value) {
  return value.kind == Kind::kBool && !value.truth;
}
bool IsInteger(const Value& value) {  // Jinja2's: no bool
  return value.kind == Kind::kInt || value.kind == Kind::kBigInt;
}
bool IsFloat(const Value& value) { return value.kind == Kind::kFloat; }
bool IsAnyNumber(const Value& value) {
  return IsNumber(value) || value.kind == Kind::kBigInt;
}
bool IsMapping(const Value& value) { return value.kind == Kind::kDict; }
bool IsEscaped(const Value& value) { return value.is_safe; }
bool HasLengthAndItems(const Value& value) {
  return IsText(value) || IsSequence(value) || value.kind == Kind::kDict ||
         value.kind == Kind::kRange || value.kind == Kind::kUndefined;
}
bool IsIterable(const Value& value) {
  return HasLengthAndItems(value) || HasList(value) ||
         value.kind == Kind::kLoop;
}
bool IsCallable(const Value& value) {
  return value.kind == Kind::kMacro || value.kind == Kind::kFunction ||
         value.kind == Kind::kMethod || value.kind == Kind::kJoiner;
}

Result<int64_t> Remainder(const Value& input, const Value& divisor) {
  TC_ASSIGN_OR_RETURN(const int64_t number, IntOf(input, 0));
  TC_ASSIGN_OR_RETURN(const int64_t by, IntOf(divisor, 0));
  if (by == 0) return Fail(ErrorCode::kCorrupt, "division by zero");
  return by == -1 ? 0 : number % by;
}

Result<bool> IsOdd(Runtime&, const Value& input, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {}));
  TC_ASSIGN_OR_RETURN(const int64_t rest, Remainder(input, Int(2)));
  return rest != 0;
}

Result<bool> IsEven(Runtime&, const Value& input, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {}));
  TC_ASSIGN_OR_RETURN(const int64_t rest, Remainder(input, Int(2)));
  return rest == 0;
}

Result<bool> IsDivisible(Runtime&, const Value& input, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"num"}, 1));
  TC_ASSIGN_OR_RETURN(const int64_t rest, Remainder(input, bound[0]));
  return rest == 0;
}

// Some characters have such a case, none the other.
template <bool (*kIs)(char32_t), bool (*kIsOther)(char32_t)>
Result<bool> IsOfCase(Runtime& runtime, const Value& input, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {}));
  TC_ASSIGN_OR_RETURN(const Value text, ToText(runtime, input));
  runtime.Walk(text.size);
  bool has_such = false;
  for (std::string_view rest = View(text); !rest.empty();) {
    const Character c = FirstCharacter(rest);
    if (kIsOther(c.code)) return false;
    has_such = has_such || kIs(c.code);
    rest.remove_prefix(c.num_bytes);
  }
  return has_such;
}

Result<bool> IsSame(Runtime& runtime, const Value& input, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"other"}, 1));
  if (input.kind != bound[0].kind) return false;
  if (HasList(input)) return input.list == bound[0].list;
  if (input.kind == Kind::kDict) return input.dict == bound[0].dict;
  return AreEqual(runtime, input, bound[0]);
}

Result<bool> IsFilterName(Runtime&, const Value& input, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {}));
  return IsText(input) && FindFilter(View(input)) != nullptr;
}

Result<bool> IsTestName(Runtime&, const Value& input, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {}));
  return IsText(input) && FindTest(View(input)) != nullptr;
}

constexpr TestEntry kTests[] = {
    {"!=", Compares<Operator::kNotEqual>},
    {"<", Compares<Operator::kLess>},
    {"<=", Compares<Operator::kLessOrEqual>},
    {"==", Compares<Operator::kEqual>},
    {">", Compares<Operator::kGreater>},
    {">=", Compares<Operator::kGreaterOrEqual>},
    {"boolean", IsSuch<IsBoolean>},
    {"callable", IsSuch<IsCallable>},
    {"defined", IsSuch<IsDefinedValue>},
    {"divisibleby", IsDivisible},
    {"eq", Compares<Operator::kEqual>},
    {"equalto", Compares<Operator::kEqual>},
    {"escaped", IsSuch<IsEscaped>},
    {"even", IsEven},
    {"false", IsSuch<IsFalseValue>},
    {"filter", IsFilterName},
    {"float", IsSuch<IsFloat>},
    {"ge", Compares<Operator::kGreaterOrEqual>},
    {"greaterthan", Compares<Operator::kGreater>},
    {"gt", Compares<Operator::kGreater>},
    {"in", Compares<Operator::kIn>},
    {"integer", IsSuch<IsInteger>},
    {"iterable", IsSuch<IsIterable>},
    {"le", Compares<Operator::kLessOrEqual>},
    {"lessthan", Compares<Operator::kLess>},
    {"lower", IsOfCase<IsLowerCase, IsUpperCase>},
    {"lt", Compares<Operator::kLess>},
    {"mapping", IsSuch<IsMapping>},
    {"ne", Compares<Operator::kNotEqual>},
    {"none", IsSuch<IsNoneValue>},
    {"number", IsSuch<IsAnyNumber>},
    {"odd", IsOdd},
    {"sameas", IsSame},
    {"sequence", IsSuch<HasLengthAndItems>},
    {"string", IsSuch<IsText>},
    {"test", IsTestName},
    {"true", IsSuch<IsTrueValue>},
    {"undefined", IsSuch<IsUndefinedValue>},
    {"upper", IsOfCase<IsUpperCase, IsLowerCase>},
};

}  // namespace

const TestEntry* FindTest(std::string_view name) {
  return FindEntry<TestEntry>(kTests, name);
}

}  // namespace thermocline::text::jinja
