#include <algorithm>
#include <string>

#include "text/jinja/access.h"
#include "text/jinja/builtins.h"
#include "text/jinja/characters.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"
#include "text/jinja/text_builder.h"
#include "text/jinja/text_ops.h"

namespace thermocline::text::jinja {
namespace {

// A filter without arguments, of any value's text.
template <Value (*kMap)(Runtime&, const Value&)>
Result<Value> TextFilter(Runtime& runtime, const Value& input,
                         const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {}));
  TC_ASSIGN_OR_RETURN(const Value text, ToText(runtime, input));
  return kMap(runtime, text);
}

Value SameText(Runtime&, const Value& text) { return text; }

Value MarkSafe(Runtime&, const Value& text) {
  Value safe = text;
  safe.is_safe = true;
  return safe;
}

Value ForceEscape(Runtime& runtime, const Value& text) {
  Value plain = text;
  plain.is_safe = false;
  return EscapeHtml(runtime, plain);
}

Value WordTitle(Runtime& runtime, const Value& text) {
  return ToTitle(runtime, text, "-({[<");
}

Value CountWords(Runtime& runtime, const Value& text) {
  runtime.Walk(text.size);
  int64_t count = 0;
  bool in_word = false;
  for (std::string_view rest = View(text); !rest.empty();) {
    const Character c = FirstCharacter(rest);
    const bool is_word =
        (c.code >= '0' && c.code <= '9') || c.code == '_' || IsLetter(c.code);
    count += is_word && !in_word;
    in_word = is_word;
    rest.remove_prefix(c.num_bytes);
  }
  return Int(count);
}

// Without <...> and comments, white space as single spaces.
Value StripTags(Runtime& runtime, const Value& text) {
  TextBuilder builder(runtime);
  runtime.Scan(text.size);
  for (size_t at = 0; at < text.size;) {
    const std::string_view bytes = View(text);
    const size_t begin = std::min(bytes.find('<', at), bytes.size());
    builder.AppendSlice(text, at, begin - at);
    if (begin == text.size) break;
    const bool is_comment = bytes.substr(begin).starts_with("<!--");
    const size_t end =
        is_comment ? bytes.find("-->", begin + 4) : bytes.find('>', begin + 1);
    if (end == std::string_view::npos) {
      builder.AppendSlice(text, begin, bytes.size() - begin);
      break;
    }
    at = end + (is_comment ? 3 : 1);
  }
  const Value words =
      SplitWords(runtime, builder.Finish(), ~uint64_t{0}, false);
  TextBuilder joined(runtime);
  for (const Value& word : words.list->items) {
    if (joined.size() > 0) joined.Append(" ", false);
    joined.Append(word);
  }
  return joined.Finish();
}

Result<Value> Trim(Runtime& runtime, const Value& input, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"chars"}));
  TC_ASSIGN_OR_RETURN(const Value text, ToText(runtime, input));
  if (!IsGiven(bound[0])) {
    return StripSpace(runtime, text, {});
  }
  TC_RETURN_IF_ERROR(CheckText(bound[0]));
  return StripCharacters(runtime, text, View(bound[0]), {});
}

Result<Value> CenterFilter(Runtime& runtime, const Value& input,
                           const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"width"}));
  TC_ASSIGN_OR_RETURN(const int64_t width, IntOf(bound[0], 80));
  TC_ASSIGN_OR_RETURN(const Value text, ToText(runtime, input));
  return Pad(runtime, text, width, Align::kCenter);
}

Result<Value> ReplaceFilter(Runtime& runtime, const Value& input,
                            const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"old", "new", "count"}, 2));
  TC_ASSIGN_OR_RETURN(const Value text, ToText(runtime, input));
  TC_ASSIGN_OR_RETURN(const Value from, ToText(runtime, bound[0]));
  TC_ASSIGN_OR_RETURN(const Value to, ToText(runtime, bound[1]));
  int64_t most = -1;
  if (bound[2].kind != Kind::kNone) {
    TC_ASSIGN_OR_RETURN(most, IntOf(bound[2], -1));
  }
  Value replaced =
      Replace(runtime, text, from, to,
              most < 0 ? ~uint64_t{0} : static_cast<uint64_t>(most));
  replaced.is_safe = false;
  return replaced;
}

Result<Value> FormatFilter(Runtime& runtime, const Value& input,
                           const Args& args) {
  TC_ASSIGN_OR_RETURN(const Value text, ToText(runtime, input));
  if (!args.named.empty()) {
    return Fail(ErrorCode::kUnsupported, "arguments with names");
  }
  return FormatPercent(runtime, text, runtime.NewTuple(args.positional));
}

Result<Value> Indent(Runtime& runtime, const Value& input, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound,
                      Bind(args, {"width", "first", "blank"}));
  TC_ASSIGN_OR_RETURN(Value text, ToText(runtime, input));
  Value indention = bound[0];
  if (!IsText(indention)) {
    TC_ASSIGN_OR_RETURN(const int64_t width, IntOf(bound[0], 4));
    indention = Pad(runtime, OutsideText({}, false), width, Align::kLeft);
  }
  // So that a line end at the end is a line of its own, as in Jinja2.
  text = Concat(runtime, text, OutsideText("\n", false));
  const Value lines = SplitLines(runtime, text, false);
  const bool blank = TruthOf(bound[2], false);
  TextBuilder builder(runtime);
  bool is_first = true;
  for (const Value& line : lines.list->items) {
    if (!is_first) builder.Append("\n", false);
    const bool is_indented =
        is_first ? TruthOf(bound[1], false) : blank || line.size > 0;
    if (is_indented) builder.Append(indention);
    builder.Append(line);
    is_first = false;
  }
  return builder.Finish();
}

Result<Value> Truncate(Runtime& runtime, const Value& input, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound,
                      Bind(args, {"length", "killwords", "end", "leeway"}));
  TC_ASSIGN_OR_RETURN(const Value text, ToText(runtime, input));
  TC_ASSIGN_OR_RETURN(const int64_t length, IntOf(bound[0], 255));
  TC_ASSIGN_OR_RETURN(const int64_t leeway, IntOf(bound[3], 5));
  const Value end =
      bound[2].kind == Kind::kUnset ? OutsideText("...", false) : bound[2];
  TC_RETURN_IF_ERROR(CheckText(end));
  TC_ASSIGN_OR_RETURN(const int64_t size, LengthOf(runtime, text));
  // Negative numbers, and such whose sum overflows, cut nothing sensible.
  constexpr int64_t kMost = int64_t{1} << 40;
  const auto end_size = static_cast<int64_t>(NumCharacters(View(end)));
  if (length < end_size || length > kMost || leeway < 0 || leeway > kMost) {
    return Fail(ErrorCode::kCorrupt, "a length of {} is less than the end's",
                length);
  }
  if (size <= length + leeway) return text;
  const size_t kept =
      ByteOfCharacter(View(text), static_cast<size_t>(length - end_size));
  Value shorter = Slice(text, 0, kept);
  const size_t space = View(shorter).rfind(' ');
  if (!TruthOf(bound[1], false) && space != std::string_view::npos) {
    shorter = Slice(text, 0, space);
  }
  TextBuilder builder(runtime);
  builder.Append(shorter);
  builder.Append(end);
  return builder.Finish();
}

Value QuoteUrl(Runtime& runtime, const Value& text, bool in_query) {
  return MapRuns(runtime, text, [&](std::string_view run, std::string* out) {
    for (const char c : run) {
      const auto byte = static_cast<unsigned char>(c);
      const bool is_plain =
          (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
          (c >= '0' && c <= '9') ||
          std::string_view("_.-~").find(c) != std::string_view::npos;
      if (is_plain || (c == '/' && !in_query)) {
        out->push_back(c);
      } else if (c == ' ' && in_query) {
        out->push_back('+');
      } else {
        out->append(fmt::format("%{:02X}", byte));
      }
    }
  });
}

Result<Value> UrlEncode(Runtime& runtime, const Value& input,
                        const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {}));
  if (input.kind != Kind::kDict && !HasList(input)) {
    TC_ASSIGN_OR_RETURN(const Value text, ToText(runtime, input));
    return QuoteUrl(runtime, text, false);
  }
  TC_ASSIGN_OR_RETURN(const auto items, ItemsOf(runtime, input));
  TextBuilder builder(runtime);
  for (const Value& item : items) {
    std::vector<Value> pair;
    if (input.kind == Kind::kDict) {
      pair = {item, *input.dict->Find(item)};
    } else {
      TC_ASSIGN_OR_RETURN(pair, ItemsOf(runtime, item));
    }
    if (pair.size() != 2)
      return Fail(ErrorCode::kCorrupt, "items are no pairs");
    TC_ASSIGN_OR_RETURN(const Value key, ToText(runtime, pair[0]));
    TC_ASSIGN_OR_RETURN(const Value value, ToText(runtime, pair[1]));
    if (builder.size() > 0) builder.Append("&", false);
    builder.Append(QuoteUrl(runtime, key, true));
    builder.Append("=", false);
    builder.Append(QuoteUrl(runtime, value, true));
  }
  return builder.Finish();
}

// Of an indent or a separator, which each item repeats.
Status CheckJsonWhiteSpace(int64_t num_bytes) {
  constexpr int64_t kMostBytes = 1000;
  if (num_bytes <= kMostBytes) return {};
  return Fail(ErrorCode::kUnsupported, "an indent or a separator of {} bytes",
              num_bytes);
}

Status ReadIndent(Runtime& runtime, const Value& argument, JsonStyle* style) {
  if (!IsGiven(argument)) return {};
  style->item_separator = ",";
  if (IsText(argument)) {
    TC_RETURN_IF_ERROR(CheckJsonWhiteSpace(argument.size));
    style->indent = View(argument);
    style->is_content = HasContent(argument);
    return {};
  }
  TC_ASSIGN_OR_RETURN(const int64_t width, IntOf(argument, 0));
  TC_RETURN_IF_ERROR(CheckJsonWhiteSpace(width));
  style->indent =
      std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  return runtime.Check();
}

Result<Value> ToJsonFilter(Runtime& runtime, const Value& input,
                           const Args& args) {
  TC_ASSIGN_OR_RETURN(
      const auto bound,
      Bind(args, {"ensure_ascii", "indent", "separators", "sort_keys"}));
  JsonStyle style;
  style.ensure_ascii = TruthOf(bound[0], false);
  style.sort_keys = TruthOf(bound[3], false);
  TC_RETURN_IF_ERROR(ReadIndent(runtime, bound[1], &style));
  if (IsGiven(bound[2])) {
    TC_ASSIGN_OR_RETURN(const auto separators, ItemsOf(runtime, bound[2]));
    if (separators.size() != 2) {
      return Fail(ErrorCode::kCorrupt, "'separators' must be two texts");
    }
    for (const Value& separator : separators) {
      TC_RETURN_IF_ERROR(CheckText(separator));
      TC_RETURN_IF_ERROR(CheckJsonWhiteSpace(separator.size));
    }
    style.item_separator = View(separators[0]);
    style.key_separator = View(separators[1]);
    style.is_content = style.is_content || HasContent(separators[0]) ||
                       HasContent(separators[1]);
  }
  return ToJson(runtime, input, style);
}

Result<Value> FromJsonFilter(Runtime& runtime, const Value& input,
                             const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {}));
  TC_RETURN_IF_ERROR(CheckText(input));
  return ParseJson(runtime, input);
}

Result<Value> PrettyPrint(Runtime& runtime, const Value& input,
                          const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {}));
  return ToRepr(runtime, input);
}

constexpr FilterEntry kTextFilters[] = {
    {"capitalize", TextFilter<Capitalize>},
    {"center", CenterFilter},
    {"e", TextFilter<EscapeHtml>},
    {"escape", TextFilter<EscapeHtml>},
    {"forceescape", TextFilter<ForceEscape>},
    {"format", FormatFilter},
    {"from_json", FromJsonFilter},
    {"indent", Indent},
    {"lower", TextFilter<ToLower>},
    {"pprint", PrettyPrint},
    {"replace", ReplaceFilter},
    {"safe", TextFilter<MarkSafe>},
    {"string", TextFilter<SameText>},
    {"striptags", TextFilter<StripTags>},
    {"title", TextFilter<WordTitle>},
    {"tojson", ToJsonFilter},
    {"trim", Trim},
    {"truncate", Truncate},
    {"upper", TextFilter<ToUpper>},
    {"urlencode", UrlEncode},
    {"wordcount", TextFilter<CountWords>},
};

}  // namespace

std::span<const FilterEntry> TextFilters() { return kTextFilters; }

}  // namespace thermocline::text::jinja
