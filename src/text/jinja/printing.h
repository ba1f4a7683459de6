// Values as texts: as Python prints them, and as JSON; and JSON as values.
//
// A text that is made of a value is content if anything in the value is.
#ifndef THERMOCLINE_TEXT_JINJA_PRINTING_H_
#define THERMOCLINE_TEXT_JINJA_PRINTING_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "text/jinja/runtime.h"
#include "text/jinja/text_builder.h"
#include "text/jinja/value.h"

namespace thermocline::text::jinja {

// Bytes of a text that are written before limits are looked at.
inline constexpr size_t kMaxPending = 4096;

// repr(number): "1.0", "1e-05", "inf".
std::string FloatText(double number);

// str(value): texts are as they are. kResourceExhausted: nested too deep.
Result<Value> ToText(Runtime& runtime, const Value& value);
// repr(value).
Result<Value> ToRepr(Runtime& runtime, const Value& value);

struct JsonStyle {
  std::optional<std::string> indent;  // of a level; none: all in one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool is_content = false;  // the indent or a separator
};
// json.dumps, but that generators are lists. Bytes that are no UTF-8 stay, or
// are U+FFFD with ensure_ascii. kCorrupt: what JSON has no word for, undefined
// values too.
Result<Value> ToJson(Runtime& runtime, const Value& value,
                     const JsonStyle& style);

// JSON that a text holds. kCorrupt: it holds none.
Result<Value> ParseJson(Runtime& runtime, const Value& text);

}  // namespace thermocline::text::jinja

#endif  // THERMOCLINE_TEXT_JINJA_PRINTING_H_
