// What is done to texts, in Python's way: positions count characters, white
// space is Unicode's. Parts of texts share their bytes; all keep to what comes
// from content, byte by byte.
#ifndef THERMOCLINE_TEXT_JINJA_TEXT_OPS_H_
#define THERMOCLINE_TEXT_JINJA_TEXT_OPS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace thermocline::text::jinja {

// Which ends of a text.
struct Sides {
  bool left = true;
  bool right = true;
};

// Without the white space, or the characters of `characters`, at its ends.
Value StripSpace(Runtime& runtime, const Value& text, Sides sides);
Value StripCharacters(Runtime& runtime, const Value& text,
                      std::string_view characters, Sides sides);

// The parts between separators, of which at most `most` are looked at, from the
// left or from the right. Requires a separator that is not empty.
Value SplitAt(Runtime& runtime, const Value& text, std::string_view separator,
              uint64_t most, bool from_right);
// The words between white space.
Value SplitWords(Runtime& runtime, const Value& text, uint64_t most,
                 bool from_right);
Value SplitLines(Runtime& runtime, const Value& text, bool keep_ends);

// At most `most` places, from the left.
Value Replace(Runtime& runtime, const Value& text, const Value& from,
              const Value& to, uint64_t most);

// Each stretch that has one maker, mapped piece by piece, between which limits
// are looked at: fn(bytes, out) appends to out.
Value MapRuns(Runtime& runtime, const Value& text,
              const std::function<void(std::string_view, std::string*)>& fn);
Value ToUpper(Runtime& runtime, const Value& text);
Value ToLower(Runtime& runtime, const Value& text);
Value Capitalize(Runtime& runtime, const Value& text);
// The first letter of each word large, where a word begins behind any of
// `borders`; behind all that is no letter, if they are empty.
Value ToTitle(Runtime& runtime, const Value& text, std::string_view borders);

// &, <, >, ' and " as HTML has them; a text that is marked safe stays.
Value EscapeHtml(Runtime& runtime, const Value& text);

// With `fill`, a text of one character, to a width in characters.
enum class Align { kLeft, kRight, kCenter };
Value Pad(Runtime& runtime, const Value& text, int64_t width, Align align,
          const Value& fill = OutsideText(" ", false));

// A text's characters, each a text.
Value ToCharacters(Runtime& runtime, const Value& text);

}  // namespace thermocline::text::jinja

#endif  // THERMOCLINE_TEXT_JINJA_TEXT_OPS_H_
