#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "text/jinja/access.h"
#include "text/jinja/builtins.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"
#include "text/jinja/string_literal.h"
#include "text/jinja/text_builder.h"
#include "text/jinja/text_ops.h"

namespace thermocline::text::jinja {
namespace {

Value FromSameMaker(Value value, const Value& input) {
  value.is_content = HasContent(input);
  return value;
}

Result<Value> Absolute(Runtime&, const Value& input, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {}));
  TC_RETURN_IF_ERROR(CheckDefined(input));
  if (!IsNumber(input)) {
    return Fail(ErrorCode::kCorrupt, "a number is due, not {}",
                TypeName(input));
  }
  if (AsDouble(input) < 0) return Negate(Operator::kSubtract, input);
  return Negate(Operator::kAdd, input);
}

Result<Value> Attribute(Runtime& runtime, const Value& input,
                        const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"name"}, 1));
  TC_RETURN_IF_ERROR(CheckText(bound[0]));
  // Members alone: the item of that name is not meant.
  if (input.kind == Kind::kDict &&
      FindMethod(input, View(bound[0])) == nullptr) {
    return Undefined("attribute", TypeName(input));
  }
  return GetItem(runtime, input, bound[0]);
}

Result<Value> Default(Runtime&, const Value& input, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound,
                      Bind(args, {"default_value", "boolean"}));
  const bool replaces = input.kind == Kind::kUndefined ||
                        (TruthOf(bound[1], false) && !IsTrue(input));
  if (!replaces) return input;
  return bound[0].kind == Kind::kUnset ? OutsideText({}, false) : bound[0];
}

// Without the white space around it and underscores between digits.
std::string NumberText(Runtime& runtime, const Value& text) {
  const std::string_view digits = View(StripSpace(runtime, text, {}));
  runtime.Walk(digits.size());
  std::string plain;
  for (size_t i = 0; i < digits.size(); ++i) {
    const bool is_between =
        digits[i] == '_' && i > 0 && i + 1 < digits.size() &&
        HexDigit(digits[i - 1]) >= 0 && HexDigit(digits[i + 1]) >= 0;
    if (!is_between) plain += digits[i];
  }
  return plain;
}

std::optional<double> ParseDouble(Runtime& runtime, const Value& text) {
  const std::string digits = NumberText(runtime, text);
  const size_t skipped = digits.starts_with('+') ? 1 : 0;
  double number = 0;
  const char* end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data() + skipped, end, number);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return number;
}

std::optional<int64_t> ParseInt(Runtime& runtime, const Value& text, int base) {
  std::string digits = NumberText(runtime, text);
  const bool is_negative = digits.starts_with('-');
  if (is_negative || digits.starts_with('+')) digits.erase(0, 1);
  if (digits.size() > 2 && digits[0] == '0') {
    const char letter = static_cast<char>(digits[1] | 0x20);
    const int named = letter == 'x'   ? 16
                      : letter == 'o' ? 8
                      : letter == 'b' ? 2
                                      : 0;
    if (named != 0 && (base == named || base == 0)) {
      base = named;
      digits.erase(0, 2);
    }
  }
  if (base == 0) base = 10;
  if (is_negative) digits.insert(0, "-");
  int64_t number = 0;
  const char* end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, number, base);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return number;
}

// Towards zero; none where it has no int.
std::optional<int64_t> Truncated(double number) {
  constexpr double kBound = 9223372036854775808.0;  // 2^63
  if (!(number > -kBound && number < kBound)) return std::nullopt;
  return static_cast<int64_t>(number);
}

Result<Value> ToInt(Runtime& runtime, const Value& input, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"default", "base"}));
  TC_ASSIGN_OR_RETURN(const int64_t base, IntOf(bound[1], 10));
  if (base < 0 || base == 1 || base > 36) {
    return Fail(ErrorCode::kCorrupt, "base {}", base);
  }
  std::optional<int64_t> number;
  if (IsText(input)) {
    number = ParseInt(runtime, input, static_cast<int>(base));
    if (!number) {
      const auto parsed = ParseDouble(runtime, input);
      if (parsed) number = Truncated(*parsed);
    }
  } else if (IsInt(input)) {
    number = AsInt(input);
  } else if (input.kind == Kind::kFloat) {
    number = Truncated(input.number);
  } else if (input.kind == Kind::kBigInt) {
    return input;
  }
  if (number) return FromSameMaker(Int(*number), input);
  return bound[0].kind == Kind::kUnset ? Int(0) : bound[0];
}

Result<Value> ToFloat(Runtime& runtime, const Value& input, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"default"}));
  if (IsText(input)) {
    if (const auto number = ParseDouble(runtime, input)) {
      return FromSameMaker(Float(*number), input);
    }
  } else if (IsNumber(input)) {
    return FromSameMaker(Float(AsDouble(input)), input);
  }
  return bound[0].kind == Kind::kUnset ? Float(0) : bound[0];
}

// As Python's round: to the nearest, even where two are as near.
double RoundDecimal(double number, int precision) {
  if (precision >= 0) {
    const std::string text = fmt::format("{:.{}f}", number, precision);
    double rounded = number;
    std::from_chars(text.data(), text.data() + text.size(), rounded);
    return rounded;
  }
  const double unit = std::pow(10.0, -precision);
  return std::nearbyint(number / unit) * unit;
}

Result<Value> Round(Runtime&, const Value& input, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"precision", "method"}));
  TC_RETURN_IF_ERROR(CheckDefined(input));
  TC_ASSIGN_OR_RETURN(const int64_t precision, IntOf(bound[0], 0));
  constexpr int64_t kMostDigits = 300;
  if (!IsNumber(input) || precision > kMostDigits || precision < -kMostDigits) {
    return Fail(ErrorCode::kCorrupt, "{} to {} digits", TypeName(input),
                precision);
  }
  const std::string_view method =
      IsText(bound[1]) ? View(bound[1]) : std::string_view("common");
  const double number = AsDouble(input);
  if (method == "common") {
    if (IsInt(input) && precision >= 0) return input;
    const double rounded = RoundDecimal(number, static_cast<int>(precision));
    if (IsInt(input)) {
      const auto whole = Truncated(rounded);
      if (whole) return FromSameMaker(Int(*whole), input);
      return Fail(ErrorCode::kUnsupported, "an integer past 64 bits");
    }
    return FromSameMaker(Float(rounded), input);
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (method == "ceil") {
    return FromSameMaker(Float(std::ceil(number * scale) / scale), input);
  }
  if (method == "floor") {
    return FromSameMaker(Float(std::floor(number * scale) / scale), input);
  }
  return Fail(ErrorCode::kCorrupt, "'{}' is no way to round", method);
}

Result<Value> FileSize(Runtime& runtime, const Value& input, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"binary"}));
  TC_ASSIGN_OR_RETURN(const Value number, ToFloat(runtime, input, {}));
  const double bytes = AsDouble(number);
  const bool binary = TruthOf(bound[0], false);
  const double base = binary ? 1024 : 1000;
  std::string text;
  if (bytes == 1) {
    text = "1 Byte";
  } else if (bytes < base) {
    text = fmt::format("{:.0f} Bytes", std::trunc(bytes));
  } else {
    constexpr std::string_view kPrefixes = "kMGTPEZY";
    size_t i = 0;
    double unit = base * base;
    for (; bytes >= unit && i + 1 < kPrefixes.size(); ++i) unit *= base;
    const char prefix = binary && i == 0 ? 'K' : kPrefixes[i];
    text = fmt::format("{:.1f} {}{}", base * bytes / unit, prefix,
                       binary ? "iB" : "B");
  }
  return MakeText(runtime, text, HasContent(input));
}

constexpr FilterEntry kValueFilters[] = {
    {"abs", Absolute},
    {"attr", Attribute},
    {"d", Default},
    {"default", Default},
    {"filesizeformat", FileSize},
    {"float", ToFloat},
    {"int", ToInt},
    {"round", Round},
};

}  // namespace

const FilterEntry* FindFilter(std::string_view name) {
  for (const auto table : {TextFilters(), ListFilters(), OrderFilters(),
                           std::span<const FilterEntry>(kValueFilters)}) {
    if (const FilterEntry* entry = FindEntry(table, name)) return entry;
  }
  return nullptr;
}

}  // namespace thermocline::text::jinja
