#include <array>
#include <cstdlib>
#include <ctime>
#include <string>

#include "text/jinja/access.h"
#include "text/jinja/builtins.h"
#include "text/jinja/characters.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"
#include "text/jinja/text_builder.h"

namespace thermocline::text::jinja {
namespace {

constexpr int64_t kMaxRangeSize = 100'000;  // as Jinja2's sandbox has it
constexpr int64_t kMaxRangeBound = int64_t{1} << 60;  // no sum overflows

Result<Value> MakeRange(Runtime& runtime, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound,
                      Bind(args, {"start", "stop", "step"}, 1));
  TC_ASSIGN_OR_RETURN(int64_t start, IntOf(bound[0], 0));
  TC_ASSIGN_OR_RETURN(int64_t stop, IntOf(bound[1], 0));
  TC_ASSIGN_OR_RETURN(const int64_t step, IntOf(bound[2], 1));
  if (bound[1].kind == Kind::kUnset) {
    stop = start;
    start = 0;
  }
  if (step == 0) return Fail(ErrorCode::kCorrupt, "the step is zero");
  for (const int64_t number : {start, stop, step}) {
    if (number > kMaxRangeBound || number < -kMaxRangeBound) {
      return Fail(ErrorCode::kUnsupported, "{} is too large", number);
    }
  }
  const int64_t distance = step > 0 ? stop - start : start - stop;
  const int64_t step_size = step > 0 ? step : -step;
  const int64_t size = distance <= 0 ? 0 : (distance - 1) / step_size + 1;
  if (size > kMaxRangeSize) {
    return Fail(ErrorCode::kResourceExhausted,
                "a range of {} numbers, more than {}", size, kMaxRangeSize);
  }
  Value range{.kind = Kind::kRange};
  range.range = runtime.New(&runtime.ranges, {start, step, size});
  return range;
}

// Items of a dictionary, or pairs, and named arguments.
Result<Value> MakeDict(Runtime& runtime, const Args& args) {
  Value result = runtime.NewDict();
  if (args.positional.size() > 1) {
    return Fail(ErrorCode::kCorrupt, "more than one argument without a name");
  }
  if (!args.positional.empty() && args.positional[0].kind == Kind::kDict) {
    for (const auto& entry : args.positional[0].dict->entries()) {
      runtime.SetItem(result.dict, entry.key, entry.value);
    }
    result.is_content = args.positional[0].is_content;
  } else if (!args.positional.empty()) {
    TC_ASSIGN_OR_RETURN(const auto pairs, ItemsOf(runtime, args.positional[0]));
    for (const Value& pair : pairs) {
      TC_ASSIGN_OR_RETURN(const auto items, ItemsOf(runtime, pair));
      if (items.size() != 2 || !IsHashable(items[0])) {
        return Fail(ErrorCode::kCorrupt, "the items are no pairs");
      }
      runtime.SetItem(result.dict, items[0], items[1]);
    }
  }
  for (const auto& [name, value] : args.named) {
    runtime.SetItem(result.dict, OutsideText(name, false), value);
  }
  return result;
}

Result<Value> MakeNamespace(Runtime& runtime, const Args& args) {
  TC_ASSIGN_OR_RETURN(Value result, MakeDict(runtime, args));
  for (const auto& entry : result.dict->entries()) {
    if (View(entry.key).starts_with('_')) {
      return Fail(ErrorCode::kCorrupt, "the name '{}' begins with '_'",
                  View(entry.key));
    }
  }
  result.kind = Kind::kNamespace;
  return result;
}

Result<Value> RaiseException(Runtime& runtime, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"message"}, 1));
  TC_ASSIGN_OR_RETURN(const Value message, ToText(runtime, bound[0]));
  TC_RETURN_IF_ERROR(runtime.Check());
  return Fail(ErrorCode::kInvalidArgument, "{}", FrontPiece(View(message)));
}

constexpr std::array<std::string_view, 7> kDays = {
    "Sunday",   "Monday", "Tuesday", "Wednesday",
    "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 12> kMonths = {
    "January", "February", "March",     "April",   "May",      "June",
    "July",    "August",   "September", "October", "November", "December"};

template <size_t kSize>
std::string_view NameAt(const std::array<std::string_view, kSize>& names,
                        int index) {
  return index >= 0 && static_cast<size_t>(index) < kSize
             ? names[static_cast<size_t>(index)]
             : std::string_view("?");
}

// Names and whole dates, in English whatever the locale is. Empty: none of
// these.
std::string TimeWords(const std::tm& now, char directive) {
  switch (directive) {
    case 'a':
      return std::string(NameAt(kDays, now.tm_wday).substr(0, 3));
    case 'A':
      return std::string(NameAt(kDays, now.tm_wday));
    case 'b':
      return std::string(NameAt(kMonths, now.tm_mon).substr(0, 3));
    case 'B':
      return std::string(NameAt(kMonths, now.tm_mon));
    case 'F':
      return fmt::format("{}-{:02}-{:02}", now.tm_year + 1900, now.tm_mon + 1,
                         now.tm_mday);
    case 'p':
      return now.tm_hour < 12 ? "AM" : "PM";
    case 'T':
      return fmt::format("{:02}:{:02}:{:02}", now.tm_hour, now.tm_min,
                         now.tm_sec);
    case '%':
      return "%";
    default:
      return {};
  }
}

struct TimeNumber {
  char directive;
  int width;  // with zeros in front
  int value;
};

// Empty: a directive that is not there.
std::string TimePart(const std::tm& now, char directive, bool is_padded) {
  const int year = now.tm_year + 1900;
  const TimeNumber numbers[] = {
      {'d', 2, now.tm_mday},
      {'H', 2, now.tm_hour},
      {'I', 2, now.tm_hour % 12 == 0 ? 12 : now.tm_hour % 12},
      {'j', 3, now.tm_yday + 1},
      {'m', 2, now.tm_mon + 1},
      {'M', 2, now.tm_min},
      {'S', 2, now.tm_sec},
      {'u', 1, now.tm_wday == 0 ? 7 : now.tm_wday},
      {'w', 1, now.tm_wday},
      {'y', 2, year % 100},
      {'Y', 4, year},
  };
  for (const TimeNumber& number : numbers) {
    if (number.directive == directive) {
      return fmt::format("{:0{}}", number.value, is_padded ? number.width : 1);
    }
  }
  return TimeWords(now, directive);
}

Result<Value> StrftimeNow(Runtime& runtime, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"format"}, 1));
  TC_RETURN_IF_ERROR(CheckText(bound[0]));
  const std::string_view format = View(bound[0]);
  if (!runtime.Work(format.size())) return bound[0];
  std::string text;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      text += format[i];
      continue;
    }
    const bool is_padded = format[i + 1] != '-' || i + 2 == format.size();
    i += is_padded ? 1 : 2;
    const std::string part = TimePart(runtime.now(), format[i], is_padded);
    if (part.empty()) {
      return Fail(ErrorCode::kUnsupported, "'%{}' is not there",
                  format.substr(i, 1));
    }
    text += part;
  }
  return MakeText(runtime, text, HasContent(bound[0]));
}

Result<Value> MakeJoiner(Runtime& runtime, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"sep"}));
  Value joiner{.kind = Kind::kJoiner};
  joiner.joiner = runtime.New(
      &runtime.joiners,
      {bound[0].kind == Kind::kUnset ? OutsideText(", ", false) : bound[0],
       false});
  return joiner;
}

Result<Value> MakeCycler(Runtime& runtime, const Args& args) {
  if (args.positional.empty() || !args.named.empty()) {
    return Fail(ErrorCode::kCorrupt, "nothing to go round in");
  }
  Value cycler{.kind = Kind::kCycler};
  cycler.cycler = runtime.New(&runtime.cyclers, {args.positional, 0});
  return cycler;
}

constexpr FunctionEntry kFunctions[] = {
    {"cycler", MakeCycler},
    {"dict", MakeDict},
    {"joiner", MakeJoiner},
    {"namespace", MakeNamespace},
    {"raise_exception", RaiseException},
    {"range", MakeRange},
    {"strftime_now", StrftimeNow},
};

}  // namespace

const FunctionEntry* FindFunction(std::string_view name) {
  return FindEntry<FunctionEntry>(kFunctions, name);
}

}  // namespace thermocline::text::jinja
