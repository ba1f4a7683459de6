#include "text/jinja/text_ops.h"

#include <algorithm>
#include <vector>

#include "text/jinja/characters.h"
#include "text/jinja/text_builder.h"

namespace thermocline::text::jinja {
namespace {

// How many bytes at the two ends satisfy `is_stripped`.
template <typename Fn>
Value StripIf(const Value& text, Sides sides, const Fn& is_stripped) {
  const std::string_view bytes = View(text);
  size_t begin = 0, end = bytes.size();
  while (sides.left && begin < end) {
    const Character c = FirstCharacter(bytes.substr(begin, end - begin));
    if (!is_stripped(bytes.substr(begin, c.num_bytes), c.code)) break;
    begin += c.num_bytes;
  }
  while (sides.right && begin < end) {
    const Character c = LastCharacter(bytes.substr(begin, end - begin));
    if (!is_stripped(bytes.substr(end - c.num_bytes, c.num_bytes), c.code)) {
      break;
    }
    end -= c.num_bytes;
  }
  return Slice(text, begin, end - begin);
}

void ReplaceNothing(const Value& text, const Value& to, uint64_t most,
                    TextBuilder* builder) {
  const std::string_view bytes = View(text);
  for (size_t at = 0;; --most) {
    if (most > 0) builder->Append(to);
    if (at == bytes.size()) return;
    if (most == 0) {
      builder->AppendSlice(text, at, bytes.size() - at);
      return;
    }
    // Asked for anew: what is appended may have moved the bytes.
    const size_t n = FirstCharacter(View(text).substr(at)).num_bytes;
    builder->AppendSlice(text, at, n);
    at += n;
  }
}

Value WordsFromRight(Runtime& runtime, const Value& text, uint64_t most) {
  ListBuilder words(runtime);
  Value rest = StripSpace(runtime, text, {.left = false, .right = true});
  while (rest.size > 0) {
    const std::string_view bytes = View(rest);
    if (most-- == 0) {
      words.Add(StripSpace(runtime, rest, {}));
      break;
    }
    size_t begin = bytes.size();
    while (begin > 0) {
      const Character c = LastCharacter(bytes.substr(0, begin));
      if (IsSpaceCharacter(c.code)) break;
      begin -= c.num_bytes;
    }
    words.Add(Slice(rest, begin, bytes.size() - begin));
    rest = StripSpace(runtime, Slice(rest, 0, begin),
                      {.left = false, .right = true});
  }
  std::vector<Value> items = words.Take();
  std::reverse(items.begin(), items.end());
  return runtime.NewList(Kind::kList, std::move(items));
}

Value SplitFromRight(Runtime& runtime, const Value& text,
                     std::string_view separator, uint64_t most) {
  ListBuilder parts(runtime);
  const std::string_view bytes = View(text);
  size_t end = bytes.size();
  for (; most > 0 && end >= separator.size(); --most) {
    const size_t at = bytes.rfind(separator, end - separator.size());
    if (at == std::string_view::npos) break;
    parts.Add(Slice(text, at + separator.size(), end - at - separator.size()));
    end = at;
  }
  parts.Add(Slice(text, 0, end));
  std::vector<Value> items = parts.Take();
  std::reverse(items.begin(), items.end());
  return runtime.NewList(Kind::kList, std::move(items));
}

}  // namespace

Value StripSpace(Runtime& runtime, const Value& text, Sides sides) {
  const Value stripped = StripIf(text, sides, [](std::string_view, char32_t c) {
    return IsSpaceCharacter(c);
  });
  runtime.Walk(text.size - stripped.size);
  return stripped;
}

Value StripCharacters(Runtime& runtime, const Value& text,
                      std::string_view characters, Sides sides) {
  return StripIf(text, sides, [&](std::string_view c, char32_t) {
    return runtime.Work(1 + characters.size() / 64) &&
           characters.find(c) != std::string_view::npos;
  });
}

Value SplitAt(Runtime& runtime, const Value& text, std::string_view separator,
              uint64_t most, bool from_right) {
  if (!runtime.ScanFor(text.size, separator.size())) {
    return runtime.NewList(Kind::kList, {});
  }
  if (from_right) return SplitFromRight(runtime, text, separator, most);
  ListBuilder parts(runtime);
  const std::string_view bytes = View(text);
  size_t begin = 0;
  for (; most > 0; --most) {
    const size_t at = bytes.find(separator, begin);
    if (at == std::string_view::npos) break;
    parts.Add(Slice(text, begin, at - begin));
    begin = at + separator.size();
  }
  parts.Add(Slice(text, begin, bytes.size() - begin));
  return parts.Finish();
}

Value SplitWords(Runtime& runtime, const Value& text, uint64_t most,
                 bool from_right) {
  runtime.Walk(text.size);
  if (from_right) return WordsFromRight(runtime, text, most);
  ListBuilder words(runtime);
  Value rest = StripSpace(runtime, text, {.left = true, .right = false});
  while (rest.size > 0) {
    const std::string_view bytes = View(rest);
    if (most-- == 0) {
      words.Add(StripSpace(runtime, rest, {.left = false, .right = true}));
      break;
    }
    size_t end = 0;
    while (end < bytes.size()) {
      const Character c = FirstCharacter(bytes.substr(end));
      if (IsSpaceCharacter(c.code)) break;
      end += c.num_bytes;
    }
    words.Add(Slice(rest, 0, end));
    rest = StripSpace(runtime, Slice(rest, end, bytes.size() - end),
                      {.left = true, .right = false});
  }
  return words.Finish();
}

Value SplitLines(Runtime& runtime, const Value& text, bool keep_ends) {
  runtime.Walk(text.size);
  ListBuilder lines(runtime);
  const std::string_view bytes = View(text);
  size_t begin = 0;
  for (size_t at = 0; at < bytes.size();) {
    const Character c = FirstCharacter(bytes.substr(at));
    const size_t end = at;
    at += c.num_bytes;
    if (!IsLineEnd(c.code)) continue;
    if (c.code == '\r' && at < bytes.size() && bytes[at] == '\n') ++at;
    lines.Add(Slice(text, begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < bytes.size()) {
    lines.Add(Slice(text, begin, bytes.size() - begin));
  }
  return lines.Finish();
}

Value Replace(Runtime& runtime, const Value& text, const Value& from,
              const Value& to, uint64_t most) {
  if (!runtime.ScanFor(text.size, from.size)) return text;
  TextBuilder builder(runtime);
  if (from.size == 0) {
    ReplaceNothing(text, to, most, &builder);
    return builder.Finish();
  }
  if (View(text).find(View(from)) == std::string_view::npos) return text;
  size_t begin = 0;
  for (; most > 0 && !runtime.spent(); --most) {
    const size_t at = View(text).find(View(from), begin);
    if (at == std::string_view::npos) break;
    builder.AppendSlice(text, begin, at - begin);
    builder.Append(to);
    begin = at + from.size;
  }
  builder.AppendSlice(text, begin, text.size - begin);
  return builder.Finish();
}

Value MapRuns(Runtime& runtime, const Value& text,
              const std::function<void(std::string_view, std::string*)>& fn) {
  runtime.Walk(text.size);
  TextBuilder builder(runtime);
  std::string mapped;
  ForEachRun(text, [&](std::string_view run, bool is_content) {
    while (!run.empty() && !runtime.spent()) {
      const std::string_view piece = FrontPiece(run);
      mapped.clear();
      fn(piece, &mapped);
      builder.Append(mapped, is_content);
      run.remove_prefix(piece.size());
    }
  });
  Value result = builder.Finish();
  result.is_safe = text.is_safe;
  return result;
}

Value ToUpper(Runtime& runtime, const Value& text) {
  return MapRuns(runtime, text, AppendUpper);
}

Value ToLower(Runtime& runtime, const Value& text) {
  return MapRuns(runtime, text, AppendLower);
}

Value Capitalize(Runtime& runtime, const Value& text) {
  bool is_first = true;
  return MapRuns(runtime, text, [&](std::string_view run, std::string* out) {
    size_t n = 0;
    if (is_first) {
      n = FirstCharacter(run).num_bytes;
      AppendUpper(run.substr(0, n), out);
      is_first = false;
    }
    AppendLower(run.substr(n), out);
  });
}

Value ToTitle(Runtime& runtime, const Value& text, std::string_view borders) {
  bool is_start = true;
  return MapRuns(runtime, text, [&](std::string_view run, std::string* out) {
    while (!run.empty()) {
      const Character c = FirstCharacter(run);
      const std::string_view bytes = run.substr(0, c.num_bytes);
      if (is_start) {
        AppendUpper(bytes, out);
      } else {
        AppendLower(bytes, out);
      }
      is_start = borders.empty()
                     ? !IsUpperCase(c.code) && !IsLowerCase(c.code)
                     : borders.find(bytes) != std::string_view::npos ||
                           IsSpaceCharacter(c.code);
      run.remove_prefix(c.num_bytes);
    }
  });
}

Value EscapeHtml(Runtime& runtime, const Value& text) {
  Value escaped = text;
  if (!text.is_safe && runtime.Walk(text.size) &&
      View(text).find_first_of("&<>'\"") != std::string_view::npos) {
    escaped =
        MapRuns(runtime, text, [](std::string_view run, std::string* out) {
          for (const char c : run) {
            switch (c) {
              case '&':
                out->append("&amp;");
                break;
              case '<':
                out->append("&lt;");
                break;
              case '>':
                out->append("&gt;");
                break;
              case '\'':
                out->append("&#39;");
                break;
              case '"':
                out->append("&#34;");
                break;
              default:
                out->push_back(c);
            }
          }
        });
  }
  escaped.is_safe = true;
  return escaped;
}

Value Pad(Runtime& runtime, const Value& text, int64_t width, Align align,
          const Value& fill) {
  runtime.Walk(text.size);
  const auto have = static_cast<int64_t>(NumCharacters(View(text)));
  if (width <= have) return text;
  const int64_t missing = width - have;
  if (!runtime.Work(static_cast<size_t>(missing))) return text;
  int64_t left = 0;
  if (align == Align::kRight) left = missing;
  // As Python centers: the odd one goes left where the width is odd too.
  if (align == Align::kCenter) left = missing / 2 + (missing & width & 1);
  TextBuilder builder(runtime);
  for (int64_t i = 0; i < left; ++i) {
    builder.Append(fill);
  }
  builder.Append(text);
  for (int64_t i = left; i < missing; ++i) {
    builder.Append(fill);
  }
  return builder.Finish();
}

Value ToCharacters(Runtime& runtime, const Value& text) {
  ListBuilder characters(runtime);
  const std::string_view bytes = View(text);
  for (size_t at = 0; at < bytes.size() && !runtime.spent();) {
    const size_t n = FirstCharacter(bytes.substr(at)).num_bytes;
    characters.Add(Slice(text, at, n));
    at += n;
  }
  return characters.Finish();
}

}  // namespace thermocline::text::jinja
