#include "text/jinja/value.h"

#include <array>
#include <cmath>
#include <compare>

namespace thermocline::text::jinja {
namespace {

constexpr size_t kMaxScanned = 8;  // entries of a Dict that has no index

template <typename T>
int ThreeWay(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

bool IsNumeric(const Value& value) {
  return IsNumber(value) || value.kind == Kind::kBigInt;
}

// An integer has more bits than a double, which is no NaN here.
int CompareWithInt(double a, int64_t b) {
  constexpr double kBound = 9223372036854775808.0;  // 2^63
  if (a >= kBound) return 1;
  if (a < -kBound) return -1;
  const auto whole = static_cast<int64_t>(a);
  if (whole != b) return ThreeWay(whole, b);
  return ThreeWay(a - std::trunc(a), 0.0);
}

int CompareWithDouble(uint64_t a, double b) {
  constexpr double kBound = 18446744073709551616.0;  // 2^64
  const int order = ThreeWay(static_cast<double>(a), b);
  if (order != 0) return order;
  return b < kBound ? ThreeWay(a, static_cast<uint64_t>(b)) : -1;
}

// Which values keys are compared with: within a group alone.
int KeyGroup(const Value& value) {
  if (IsNumeric(value)) return 0;
  if (IsText(value)) return 1;
  if (value.kind == Kind::kTuple) return 2;
  return 3 + static_cast<int>(value.kind);
}

int CompareKeys(const Value& a, const Value& b) {
  const int group = KeyGroup(a);
  if (group != KeyGroup(b)) return ThreeWay(group, KeyGroup(b));
  if (group == 0) return CompareNumbers(a, b);
  if (group == 1) return ThreeWay(View(a), View(b));
  if (group != 2) {
    return a.kind == Kind::kNone || a.kind == Kind::kUndefined
               ? 0
               : ThreeWay<const void*>(a.list, b.list);
  }
  const auto& left = a.list->items;
  const auto& right = b.list->items;
  for (size_t i = 0; i < left.size() && i < right.size(); ++i) {
    const int order = CompareKeys(left[i], right[i]);
    if (order != 0) return order;
  }
  return ThreeWay(left.size(), right.size());
}

}  // namespace

bool KeyLess::operator()(const Value& a, const Value& b) const {
  return CompareKeys(a, b) < 0;
}

size_t Dict::IndexOf(const Value& key) const {
  if (!index_.empty()) {
    const auto found = index_.find(key);
    return found == index_.end() ? size() : found->second;
  }
  size_t i = 0;
  while (i < size() && CompareKeys(entries_[i].key, key) != 0) ++i;
  return i;
}

const Value* Dict::Find(const Value& key) const {
  const size_t i = IndexOf(key);
  return i == size() ? nullptr : &entries_[i].value;
}

void Dict::Set(const Value& key, const Value& value) {
  const size_t i = IndexOf(key);
  if (i < size()) {
    entries_[i].value = value;
    return;
  }
  entries_.push_back({key, value});
  if (size() <= kMaxScanned) return;
  if (index_.empty()) {
    for (size_t j = 0; j + 1 < size(); ++j) index_.emplace(entries_[j].key, j);
  }
  index_.emplace(key, size() - 1);
}

std::string_view View(const Value& value) {
  if (value.kind == Kind::kUndefined) return {value.data, value.size};
  if (!IsText(value)) return {};
  if (value.buffer == nullptr) return {value.data, value.size};
  return std::string_view(value.buffer->bytes).substr(value.offset, value.size);
}

bool IsNan(const Value& value) {
  return value.kind == Kind::kFloat && std::isnan(value.number);
}

int64_t AsInt(const Value& value) {
  return value.kind == Kind::kBool ? value.truth : value.integer;
}

double AsDouble(const Value& value) {
  return value.kind == Kind::kFloat ? value.number
                                    : static_cast<double>(AsInt(value));
}

bool IsTrue(const Value& value) {
  switch (value.kind) {
    case Kind::kUnset:
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return value.truth;
    case Kind::kInt:
      return value.integer != 0;
    case Kind::kFloat:
      return value.number != 0;
    case Kind::kText:
      return value.size != 0;
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
      return !value.list->items.empty();
    case Kind::kDict:
      return value.dict->size() != 0;
    case Kind::kRange:
      return value.range->size != 0;
    default:
      return true;
  }
}

bool IsHashable(const Value& value) {
  if (value.kind == Kind::kTuple) {
    // Only tuples hold a tuple within reach of a key, and they hold what was
    // there before them, so this ends.
    for (const Value& item : value.list->items) {
      if (item.kind == Kind::kTuple || !IsHashable(item)) return false;
    }
    return true;
  }
  return value.kind != Kind::kList && value.kind != Kind::kDict &&
         value.kind != Kind::kView;
}

int CompareNumbers(const Value& a, const Value& b) {
  if (a.kind == Kind::kBigInt && b.kind == Kind::kBigInt) {
    return ThreeWay(a.big, b.big);
  }
  if (IsNan(a) || IsNan(b)) return IsNan(a) - IsNan(b);
  if (a.kind == Kind::kBigInt) {
    return b.kind == Kind::kFloat ? CompareWithDouble(a.big, b.number) : 1;
  }
  if (b.kind == Kind::kBigInt) return -CompareNumbers(b, a);
  if (a.kind == Kind::kFloat && b.kind == Kind::kFloat) {
    return ThreeWay(a.number, b.number);
  }
  if (a.kind == Kind::kFloat) return CompareWithInt(a.number, AsInt(b));
  if (b.kind == Kind::kFloat) return -CompareWithInt(b.number, AsInt(a));
  return ThreeWay(AsInt(a), AsInt(b));
}

const char* TypeName(const Value& value) {
  static constexpr std::array<const char*, 21> kNames = {
      "Undefined",   "Undefined", "NoneType", "bool",   "int",
      "int",         "float",     "str",      "list",   "tuple",
      "generator",   "dict_view", "range",    "dict",   "Namespace",
      "LoopContext", "Macro",     "function", "method", "Joiner",
      "Cycler"};
  return kNames[static_cast<size_t>(value.kind)];
}

}  // namespace thermocline::text::jinja
