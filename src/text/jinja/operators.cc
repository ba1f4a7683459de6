#include "text/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "text/jinja/text_builder.h"
#include "text/jinja/text_ops.h"

namespace thermocline::text::jinja {
namespace {

constexpr int64_t kMinInt = std::numeric_limits<int64_t>::min();

Status TooLarge() {
  return Fail(ErrorCode::kUnsupported, "an integer past 64 bits");
}

Status NoOperands(Operator op, const Value& a, const Value& b) {
  return Fail(ErrorCode::kCorrupt, "'{}' does not go between {} and {}",
              SignOf(op), TypeName(a), TypeName(b));
}

tl::unexpected<Error> ErrorOf(const Status& status) {
  return tl::unexpected(status.error());
}

double FloorMod(double a, double b) {
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

Result<Value> PowerOfInts(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) {
      return Fail(ErrorCode::kCorrupt, "a negative power of zero");
    }
    return Float(
        std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t power = 1;
  if (base == 0 || base == 1) return Int(exponent == 0 ? 1 : base);
  if (base == -1) return Int(exponent % 2 == 0 ? 1 : -1);
  for (; exponent > 0; --exponent) {  // at most 63 rounds
    if (__builtin_mul_overflow(power, base, &power)) return ErrorOf(TooLarge());
  }
  return Int(power);
}

Result<Value> CalculateInts(Operator op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflows = false;
  switch (op) {
    case Operator::kAdd:
      overflows = __builtin_add_overflow(a, b, &result);
      break;
    case Operator::kSubtract:
      overflows = __builtin_sub_overflow(a, b, &result);
      break;
    case Operator::kMultiply:
      overflows = __builtin_mul_overflow(a, b, &result);
      break;
    case Operator::kFloorDivide:
      overflows = a == kMinInt && b == -1;
      if (!overflows) result = a / b - (a % b != 0 && (a < 0) != (b < 0));
      break;
    case Operator::kModulo:
      if (b != -1) {
        result = a % b;
        if (result != 0 && (result < 0) != (b < 0)) result += b;
      }
      break;
    default:
      return PowerOfInts(a, b);
  }
  if (overflows) return ErrorOf(TooLarge());
  return Int(result);
}

Value CalculateDoubles(Operator op, double a, double b) {
  switch (op) {
    case Operator::kAdd:
      return Float(a + b);
    case Operator::kSubtract:
      return Float(a - b);
    case Operator::kMultiply:
      return Float(a * b);
    case Operator::kDivide:
      return Float(a / b);
    case Operator::kFloorDivide:
      return Float(std::floor(a / b));
    case Operator::kModulo:
      return Float(FloorMod(a, b));
    default:
      return Float(std::pow(a, b));
  }
}

Result<Value> CalculateNumbers(Operator op, const Value& a, const Value& b) {
  const bool divides = op == Operator::kDivide ||
                       op == Operator::kFloorDivide || op == Operator::kModulo;
  if (divides && AsDouble(b) == 0) {
    return Fail(ErrorCode::kCorrupt, "'{}' by zero", SignOf(op));
  }
  Value result;
  if (IsInt(a) && IsInt(b) && op != Operator::kDivide) {
    TC_ASSIGN_OR_RETURN(result, CalculateInts(op, AsInt(a), AsInt(b)));
  } else {
    result = CalculateDoubles(op, AsDouble(a), AsDouble(b));
  }
  result.is_content = a.is_content || b.is_content;
  return result;
}

Result<Value> AddTexts(Runtime& runtime, const Value& a, const Value& b) {
  if (!a.is_safe && !b.is_safe) return Concat(runtime, a, b);
  Value sum = Concat(runtime, EscapeHtml(runtime, a), EscapeHtml(runtime, b));
  sum.is_safe = true;
  return sum;
}

Value AddLists(Runtime& runtime, const Value& a, const Value& b) {
  ListBuilder sum(runtime);
  for (const Value& item : a.list->items) sum.Add(item);
  for (const Value& item : b.list->items) sum.Add(item);
  Value list = sum.Finish(a.kind);
  list.is_content = a.is_content || b.is_content;
  return list;
}

Result<Value> RepeatIt(Runtime& runtime, const Value& what,
                       const Value& times) {
  const int64_t n = std::max<int64_t>(AsInt(times), 0);
  const size_t one =
      IsText(what) ? what.size : what.list->items.size() * sizeof(Value);
  size_t all = 0;
  if (__builtin_mul_overflow(one, static_cast<size_t>(n), &all)) {
    all = std::numeric_limits<size_t>::max();
  }
  if (one == 0 && IsText(what)) return what;
  if (!runtime.Charge(all) || !runtime.Work(static_cast<size_t>(n) / 8)) {
    return ErrorOf(runtime.Check());
  }
  if (IsText(what)) {
    TextBuilder builder(runtime);
    for (int64_t i = 0; i < n; ++i) builder.Append(what);
    Value text = builder.Finish();
    text.is_safe = what.is_safe;
    return text;
  }
  ListBuilder builder(runtime);
  for (int64_t i = 0; i < n; ++i) {
    for (const Value& item : what.list->items) builder.Add(item);
  }
  Value list = builder.Finish(what.kind);
  list.is_content = what.is_content;
  return list;
}

bool AreListsEqual(Runtime& runtime, const Value& a, const Value& b, int depth);
bool AreDictsEqual(Runtime& runtime, const Dict& a, const Dict& b, int depth);

bool IsEqualWithin(Runtime& runtime, const Value& a, const Value& b,
                   int depth) {
  if (depth > runtime.nesting()) return runtime.TooDeep().has_value();
  if (!runtime.Work(1)) return false;
  const auto is_numeric = [](const Value& value) {
    return IsNumber(value) || value.kind == Kind::kBigInt;
  };
  if (is_numeric(a) && is_numeric(b)) {
    return !IsNan(a) && !IsNan(b) && CompareNumbers(a, b) == 0;
  }
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::kUnset:
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kText:
      return runtime.Scan(std::min(a.size, b.size)) && View(a) == View(b);
    case Kind::kList:
    case Kind::kTuple:
      return AreListsEqual(runtime, a, b, depth);
    case Kind::kDict:
      return AreDictsEqual(runtime, *a.dict, *b.dict, depth);
    case Kind::kRange:
      return a.range->size == b.range->size &&
             (a.range->size == 0 || a.range->start == b.range->start) &&
             (a.range->size <= 1 || a.range->step == b.range->step);
    default:
      return static_cast<const void*>(a.list) == b.list;
  }
}

bool AreListsEqual(Runtime& runtime, const Value& a, const Value& b,
                   int depth) {
  const auto& left = a.list->items;
  const auto& right = b.list->items;
  return a.list == b.list ||
         std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [&](const Value& x, const Value& y) {
                      return IsEqualWithin(runtime, x, y, depth + 1);
                    });
}

bool AreDictsEqual(Runtime& runtime, const Dict& a, const Dict& b, int depth) {
  if (&a == &b) return true;
  if (a.size() != b.size()) return false;
  return std::all_of(
      a.entries().begin(), a.entries().end(), [&](const Dict::Entry& entry) {
        const Value* other = runtime.FindItem(b, entry.key);
        return other != nullptr &&
               IsEqualWithin(runtime, entry.value, *other, depth + 1);
      });
}

// -1, 0, 1.
Result<int> OrderWithin(Runtime& runtime, Operator op, const Value& a,
                        const Value& b, int depth) {
  if (depth > runtime.nesting()) {
    TC_RETURN_IF_ERROR(runtime.TooDeep());
  }
  if (!runtime.Work(1)) return ErrorOf(runtime.Check());
  if ((IsNumber(a) || a.kind == Kind::kBigInt) &&
      (IsNumber(b) || b.kind == Kind::kBigInt)) {
    return CompareNumbers(a, b);
  }
  if (IsText(a) && IsText(b)) {
    runtime.Scan(std::min(a.size, b.size));
    const int order = View(a).compare(View(b));
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
  TC_RETURN_IF_ERROR(CheckDefined(a));
  TC_RETURN_IF_ERROR(CheckDefined(b));
  if (!IsSequence(a) || a.kind != b.kind) return ErrorOf(NoOperands(op, a, b));
  const auto& left = a.list->items;
  const auto& right = b.list->items;
  for (size_t i = 0; i < left.size() && i < right.size(); ++i) {
    if (IsEqualWithin(runtime, left[i], right[i], depth + 1)) continue;
    return OrderWithin(runtime, op, left[i], right[i], depth + 1);
  }
  return left.size() < right.size() ? -1 : left.size() > right.size() ? 1 : 0;
}

}  // namespace

Status UndefinedError(const Value& value) {
  if (value.owner == nullptr) {
    return Fail(ErrorCode::kCorrupt, "'{}' is undefined", View(value));
  }
  return Fail(ErrorCode::kCorrupt, "'{} object' has no attribute '{}'",
              value.owner, View(value));
}

Status CheckDefined(const Value& value) {
  if (value.kind == Kind::kUndefined) return UndefinedError(value);
  return {};
}

Result<Value> Calculate(Runtime& runtime, Operator op, const Value& a,
                        const Value& b) {
  TC_RETURN_IF_ERROR(CheckDefined(a));
  if (IsText(a) && op == Operator::kModulo) return FormatPercent(runtime, a, b);
  TC_RETURN_IF_ERROR(CheckDefined(b));
  if (IsNumber(a) && IsNumber(b)) return CalculateNumbers(op, a, b);
  if (op == Operator::kAdd) {
    if (IsText(a) && IsText(b)) return AddTexts(runtime, a, b);
    if (IsSequence(a) && a.kind == b.kind) return AddLists(runtime, a, b);
  }
  if (op == Operator::kMultiply) {
    if ((IsText(a) || IsSequence(a)) && IsInt(b)) {
      return RepeatIt(runtime, a, b);
    }
    if ((IsText(b) || IsSequence(b)) && IsInt(a)) {
      return RepeatIt(runtime, b, a);
    }
  }
  if (a.kind == Kind::kBigInt || b.kind == Kind::kBigInt) {
    return ErrorOf(TooLarge());
  }
  return ErrorOf(NoOperands(op, a, b));
}

Result<Value> Negate(Operator op, const Value& value) {
  TC_RETURN_IF_ERROR(CheckDefined(value));
  Value result;
  if (value.kind == Kind::kFloat) {
    result = Float(op == Operator::kAdd ? value.number : -value.number);
  } else if (IsInt(value)) {
    const int64_t number = AsInt(value);
    if (op == Operator::kSubtract && number == kMinInt) {
      return ErrorOf(TooLarge());
    }
    result = Int(op == Operator::kAdd ? number : -number);
  } else {
    return Fail(ErrorCode::kCorrupt, "'{}' does not go before {}", SignOf(op),
                TypeName(value));
  }
  result.is_content = value.is_content;
  return result;
}

bool AreEqual(Runtime& runtime, const Value& a, const Value& b) {
  return IsEqualWithin(runtime, a, b, 1);
}

Result<bool> IsLess(Runtime& runtime, const Value& a, const Value& b) {
  return Compare(runtime, Operator::kLess, a, b);
}

Result<bool> Compare(Runtime& runtime, Operator op, const Value& a,
                     const Value& b) {
  switch (op) {
    case Operator::kEqual:
      return AreEqual(runtime, a, b);
    case Operator::kNotEqual:
      return !AreEqual(runtime, a, b);
    case Operator::kIn:
      return IsContained(runtime, a, b);
    case Operator::kNotIn: {
      TC_ASSIGN_OR_RETURN(const bool is_in, IsContained(runtime, a, b));
      return !is_in;
    }
    default:
      break;
  }
  TC_ASSIGN_OR_RETURN(const int order, OrderWithin(runtime, op, a, b, 1));
  if (IsNan(a) || IsNan(b)) return false;
  switch (op) {
    case Operator::kLess:
      return order < 0;
    case Operator::kLessOrEqual:
      return order <= 0;
    case Operator::kGreater:
      return order > 0;
    default:
      return order >= 0;
  }
}

Result<bool> IsContained(Runtime& runtime, const Value& item,
                         const Value& container) {
  if (container.kind == Kind::kUndefined) return false;
  if (container.kind == Kind::kDict) {
    return runtime.FindItem(*container.dict, item) != nullptr;
  }
  if (IsText(container)) {
    TC_RETURN_IF_ERROR(CheckDefined(item));
    if (!IsText(item))
      return ErrorOf(NoOperands(Operator::kIn, item, container));
    if (!runtime.ScanFor(container.size, item.size)) {
      return ErrorOf(runtime.Check());
    }
    return View(container).find(View(item)) != std::string_view::npos;
  }
  if (HasList(container)) {
    for (const Value& candidate : container.list->items) {
      if (AreEqual(runtime, candidate, item)) return true;
      if (runtime.spent()) break;
    }
    return false;
  }
  if (container.kind == Kind::kRange) {
    const Range& range = *container.range;
    if (!IsInt(item) || range.size == 0) return false;
    const int64_t low = std::min(range.start, range.At(range.size - 1));
    const int64_t high = std::max(range.start, range.At(range.size - 1));
    const int64_t number = AsInt(item);
    return number >= low && number <= high &&
           (number - low) % std::abs(range.step) == 0;
  }
  return Fail(ErrorCode::kCorrupt,
              "'in' needs a list, a dict or a text, not {}",
              TypeName(container));
}

}  // namespace thermocline::text::jinja
