#include <algorithm>
#include <limits>
#include <span>
#include <string>

#include "text/jinja/access.h"
#include "text/jinja/builtins.h"
#include "text/jinja/characters.h"
#include "text/jinja/operators.h"
#include "text/jinja/text_builder.h"
#include "text/jinja/text_ops.h"

namespace thermocline::text::jinja {
namespace {

constexpr uint64_t kAll = std::numeric_limits<uint64_t>::max();

// A number of parts or places; all if it was not given or is negative.
Result<uint64_t> MostOf(const Value& argument) {
  TC_ASSIGN_OR_RETURN(const int64_t most, IntOf(argument, -1));
  return most < 0 ? kAll : static_cast<uint64_t>(most);
}

template <bool kLeft, bool kRight>
Result<Value> StripWith(Runtime& runtime, const Value& self, const Args& args) {
  constexpr Sides kSides = {.left = kLeft, .right = kRight};
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"chars"}));
  if (!IsGiven(bound[0])) {
    return StripSpace(runtime, self, kSides);
  }
  TC_RETURN_IF_ERROR(CheckText(bound[0]));
  return StripCharacters(runtime, self, View(bound[0]), kSides);
}

template <bool kFromRight>
Result<Value> SplitWith(Runtime& runtime, const Value& self, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"sep", "maxsplit"}));
  TC_ASSIGN_OR_RETURN(const uint64_t most, MostOf(bound[1]));
  if (!IsGiven(bound[0])) {
    return SplitWords(runtime, self, most, kFromRight);
  }
  TC_RETURN_IF_ERROR(CheckText(bound[0]));
  if (bound[0].size == 0) {
    return Fail(ErrorCode::kCorrupt, "an empty separator");
  }
  return SplitAt(runtime, self, View(bound[0]), most, kFromRight);
}

template <bool kFromRight>
Result<Value> PartitionWith(Runtime& runtime, const Value& self,
                            const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"sep"}, 1));
  TC_RETURN_IF_ERROR(CheckText(bound[0]));
  const std::string_view bytes = View(self), separator = View(bound[0]);
  if (separator.empty()) {
    return Fail(ErrorCode::kCorrupt, "an empty separator");
  }
  if (!runtime.ScanFor(bytes.size(), separator.size())) return self;
  const size_t at = kFromRight ? bytes.rfind(separator) : bytes.find(separator);
  const Value nothing = OutsideText({}, false);
  if (at == std::string_view::npos) {
    return kFromRight ? runtime.NewTuple({nothing, nothing, self})
                      : runtime.NewTuple({self, nothing, nothing});
  }
  const size_t after = at + separator.size();
  return runtime.NewTuple({Slice(self, 0, at),
                           Slice(self, at, separator.size()),
                           Slice(self, after, bytes.size() - after)});
}

// Whether the text begins, or ends, with an argument or any of a tuple's.
template <bool kAtEnd>
Result<Value> AffixWith(Runtime& runtime, const Value& self, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"affix"}, 1));
  std::span<const Value> affixes = bound;
  if (bound[0].kind == Kind::kTuple) affixes = bound[0].list->items;
  for (const Value& affix : affixes) {
    TC_RETURN_IF_ERROR(CheckText(affix));
    if (!runtime.Work(1 + affix.size / 64)) break;
    if (kAtEnd ? View(self).ends_with(View(affix))
               : View(self).starts_with(View(affix))) {
      return Bool(true);
    }
  }
  return Bool(false);
}

template <bool kAtEnd>
Result<Value> RemoveAffix(Runtime& runtime, const Value& self,
                          const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"affix"}, 1));
  TC_RETURN_IF_ERROR(CheckText(bound[0]));
  const size_t size = bound[0].size;
  runtime.Scan(size);
  if (kAtEnd ? !View(self).ends_with(View(bound[0]))
             : !View(self).starts_with(View(bound[0]))) {
    return self;
  }
  return Slice(self, kAtEnd ? 0 : size, self.size - size);
}

// Where the argument is, in characters; -1: nowhere.
Result<int64_t> FindWith(Runtime& runtime, const Value& self, const Args& args,
                         bool from_right) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"sub"}, 1));
  TC_RETURN_IF_ERROR(CheckText(bound[0]));
  if (!runtime.ScanFor(self.size, bound[0].size)) return -1;
  const std::string_view bytes = View(self), sub = View(bound[0]);
  const size_t at = from_right ? bytes.rfind(sub) : bytes.find(sub);
  if (at == std::string_view::npos) return -1;
  runtime.Walk(at);
  return static_cast<int64_t>(NumCharacters(bytes.substr(0, at)));
}

template <bool kFromRight>
Result<Value> IndexWith(Runtime& runtime, const Value& self, const Args& args) {
  TC_ASSIGN_OR_RETURN(const int64_t at,
                      FindWith(runtime, self, args, kFromRight));
  if (at < 0) return Fail(ErrorCode::kCorrupt, "the text does not hold that");
  return Int(at);
}

template <bool kFromRight>
Result<Value> FindOrNone(Runtime& runtime, const Value& self,
                         const Args& args) {
  TC_ASSIGN_OR_RETURN(const int64_t at,
                      FindWith(runtime, self, args, kFromRight));
  return Int(at);
}

Result<Value> CountIn(Runtime& runtime, const Value& self, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"sub"}, 1));
  TC_RETURN_IF_ERROR(CheckText(bound[0]));
  runtime.Walk(self.size);
  if (!runtime.ScanFor(self.size, bound[0].size)) return Int(0);
  const std::string_view bytes = View(self), sub = View(bound[0]);
  if (sub.empty()) return Int(static_cast<int64_t>(NumCharacters(bytes)) + 1);
  int64_t count = 0;
  for (size_t at = 0; (at = bytes.find(sub, at)) != std::string_view::npos;
       at += sub.size()) {
    ++count;
  }
  return Int(count);
}

Result<Value> ReplaceWith(Runtime& runtime, const Value& self,
                          const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"old", "new", "count"}, 2));
  TC_RETURN_IF_ERROR(CheckText(bound[0]));
  TC_RETURN_IF_ERROR(CheckText(bound[1]));
  TC_ASSIGN_OR_RETURN(const uint64_t most, MostOf(bound[2]));
  return Replace(runtime, self, bound[0], bound[1], most);
}

Result<Value> JoinWith(Runtime& runtime, const Value& self, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"iterable"}, 1));
  TC_ASSIGN_OR_RETURN(const auto items, ItemsOf(runtime, bound[0]));
  TextBuilder builder(runtime);
  for (size_t i = 0; i < items.size(); ++i) {
    TC_RETURN_IF_ERROR(CheckText(items[i]));
    if (i > 0) builder.Append(self);
    builder.Append(items[i]);
  }
  return builder.Finish();
}

template <Align kAlign>
Result<Value> PadWith(Runtime& runtime, const Value& self, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"width", "fillchar"}, 1));
  TC_ASSIGN_OR_RETURN(const int64_t width, IntOf(bound[0], 0));
  Value fill = OutsideText(" ", false);
  if (bound[1].kind != Kind::kUnset) {
    TC_RETURN_IF_ERROR(CheckText(bound[1]));
    fill = bound[1];
    if (fill.size > 4 || NumCharacters(View(fill)) != 1) {
      return Fail(ErrorCode::kCorrupt, "what fills must be one character");
    }
  }
  return Pad(runtime, self, width, kAlign, fill);
}

Result<Value> ZeroFill(Runtime& runtime, const Value& self, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"width"}, 1));
  TC_ASSIGN_OR_RETURN(const int64_t width, IntOf(bound[0], 0));
  const Value zero = OutsideText("0", false);
  const bool has_sign =
      View(self).starts_with('-') || View(self).starts_with('+');
  if (!has_sign || width < 1) {
    return Pad(runtime, self, width, Align::kRight, zero);
  }
  const Value digits = Slice(self, 1, self.size - 1);
  return Concat(runtime, Slice(self, 0, 1),
                Pad(runtime, digits, width - 1, Align::kRight, zero));
}

Result<Value> LinesOf(Runtime& runtime, const Value& self, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"keepends"}));
  return SplitLines(runtime, self, TruthOf(bound[0], false));
}

// Whether there are characters, and all are such.
template <bool (*kIs)(char32_t)>
Result<Value> AllAre(Runtime& runtime, const Value& self, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {}));
  runtime.Walk(self.size);
  std::string_view rest = View(self);
  while (!rest.empty()) {
    const Character c = FirstCharacter(rest);
    if (!kIs(c.code)) break;
    rest.remove_prefix(c.num_bytes);
  }
  return Bool(self.size > 0 && rest.empty());
}

// Whether some have such a case, and none has the other.
template <bool (*kIs)(char32_t), bool (*kIsOther)(char32_t)>
Result<Value> HasCase(Runtime& runtime, const Value& self, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {}));
  runtime.Walk(self.size);
  bool has_such = false;
  for (std::string_view rest = View(self); !rest.empty();) {
    const Character c = FirstCharacter(rest);
    if (kIsOther(c.code)) return Bool(false);
    has_such = has_such || kIs(c.code);
    rest.remove_prefix(c.num_bytes);
  }
  return Bool(has_such);
}

bool IsDecimal(char32_t c) { return c >= '0' && c <= '9'; }
bool IsLetterOrDigit(char32_t c) { return IsDecimal(c) || IsLetter(c); }
bool IsAsciiCharacter(char32_t c) { return c < 0x80; }

template <Value (*kMap)(Runtime&, const Value&)>
Result<Value> Mapped(Runtime& runtime, const Value& self, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {}));
  return kMap(runtime, self);
}

Value PythonTitle(Runtime& runtime, const Value& text) {
  return ToTitle(runtime, text, "");
}

constexpr MethodEntry kTextMethods[] = {
    {"capitalize", Mapped<Capitalize>},
    {"casefold", Mapped<ToLower>},
    {"center", PadWith<Align::kCenter>},
    {"count", CountIn},
    {"encode", nullptr},
    {"endswith", AffixWith<true>},
    {"expandtabs", nullptr},
    {"find", FindOrNone<false>},
    {"format", FormatBraces},
    {"format_map", nullptr},
    {"index", IndexWith<false>},
    {"isalnum", AllAre<IsLetterOrDigit>},
    {"isalpha", AllAre<IsLetter>},
    {"isascii", AllAre<IsAsciiCharacter>},
    {"isdecimal", AllAre<IsDecimal>},
    {"isdigit", AllAre<IsDecimal>},
    {"isidentifier", nullptr},
    {"islower", HasCase<IsLowerCase, IsUpperCase>},
    {"isnumeric", AllAre<IsDecimal>},
    {"isprintable", AllAre<IsPrintableCharacter>},
    {"isspace", AllAre<IsSpaceCharacter>},
    {"istitle", nullptr},
    {"isupper", HasCase<IsUpperCase, IsLowerCase>},
    {"join", JoinWith},
    {"ljust", PadWith<Align::kLeft>},
    {"lower", Mapped<ToLower>},
    {"lstrip", StripWith<true, false>},
    {"maketrans", nullptr},
    {"partition", PartitionWith<false>},
    {"removeprefix", RemoveAffix<false>},
    {"removesuffix", RemoveAffix<true>},
    {"replace", ReplaceWith},
    {"rfind", FindOrNone<true>},
    {"rindex", IndexWith<true>},
    {"rjust", PadWith<Align::kRight>},
    {"rpartition", PartitionWith<true>},
    {"rsplit", SplitWith<true>},
    {"rstrip", StripWith<false, true>},
    {"split", SplitWith<false>},
    {"splitlines", LinesOf},
    {"startswith", AffixWith<false>},
    {"strip", StripWith<true, true>},
    {"swapcase", nullptr},
    {"title", Mapped<PythonTitle>},
    {"translate", nullptr},
    {"upper", Mapped<ToUpper>},
    {"zfill", ZeroFill},
};

}  // namespace

std::span<const MethodEntry> TextMethods() { return kTextMethods; }

}  // namespace thermocline::text::jinja
