// What is within values: members, items, parts, and all that one can go
// through.
#ifndef THERMOCLINE_TEXT_JINJA_ACCESS_H_
#define THERMOCLINE_TEXT_JINJA_ACCESS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace thermocline::text::jinja {

// value.name: a method or another member of the type before an item of that
// name. Undefined where there is neither. kCorrupt: of an undefined value.
// `name` outlives the rendering.
Result<Value> GetAttribute(Runtime& runtime, const Value& value,
                           std::string_view name);
// value[key]: an item before a member. The same else.
Result<Value> GetItem(Runtime& runtime, const Value& value, const Value& key);
// What "a.b.0" leads to, from filters' `attribute`: items before members; any
// kind of value as a key.
Result<Value> GetPath(Runtime& runtime, const Value& value, const Value& path);
// value[start:stop:step], of which any may be kNone.
Result<Value> GetSlice(Runtime& runtime, const Value& value, const Value& start,
                       const Value& stop, const Value& step);

// What `for` runs over. kCorrupt: the value has no items.
Result<std::vector<Value>> ItemsOf(Runtime& runtime, const Value& value);
// len(value).
Result<int64_t> LengthOf(Runtime& runtime, const Value& value);

}  // namespace thermocline::text::jinja

#endif  // THERMOCLINE_TEXT_JINJA_ACCESS_H_
