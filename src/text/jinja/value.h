// What a template computes with: Python's values, as far as templates meet
// them. A Value is a handle of 24 bytes that is copied freely. What it points
// to belongs to the Runtime of one rendering and lives until that ends, so
// values may form cycles, are never freed one by one, and need no recursion to
// be freed. Texts that nothing was done to point into the template's source or
// the caller's variables.
#ifndef THERMOCLINE_TEXT_JINJA_VALUE_H_
#define THERMOCLINE_TEXT_JINJA_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace thermocline::text::jinja {

struct Value;
struct Buffer;
struct List;
class Dict;
struct Range;
struct Loop;
struct MacroObject;
struct BoundMethod;
struct FunctionEntry;
struct Joiner;
struct Cycler;

enum class Kind : uint8_t {
  kUnset,      // nothing at all: no such name, an argument that was not given
  kUndefined,  // what a template gets for something that is not there
  kNone,
  kBool,
  kInt,
  kBigInt,  // past int64_t, within uint64_t: told on, not computed with
  kFloat,
  kText,
  kList,
  kTuple,
  kGenerator,  // what map, select, ... give: no length, no index
  kView,       // what keys(), values() and items() give: no index
  kRange,
  kDict,
  kNamespace,
  kLoop,
  kMacro,
  kFunction,
  kMethod,
  kJoiner,
  kCycler,
};

struct Value {
  Kind kind = Kind::kUndefined;
  // Made of Variables.content. What parts of a text in a Buffer are so is in
  // the Buffer.
  bool is_content = false;
  bool is_safe = false;  // a text that the filter `safe` has marked
  uint32_t size = 0;     // bytes of a text, or of an undefined value's name
  union {
    const char* data = nullptr;  // a text without a Buffer, an undefined's name
    size_t offset;               // of a text in its Buffer
    int64_t integer;
    uint64_t big;
    double number;
    bool truth;
  };
  union {
    Buffer* buffer = nullptr;  // of a text; null: `data` is outside
    const char* owner;         // kUndefined: the type that lacks the attribute
    List* list;                // kList, kTuple, kGenerator, kView
    Dict* dict;                // kDict, kNamespace
    const Range* range;
    Loop* loop;
    const MacroObject* macro;
    const FunctionEntry* function;
    const BoundMethod* method;
    Joiner* joiner;
    Cycler* cycler;
  };
};

// Where a stretch of a Buffer ends, and whose it is. Neighbours differ.
struct Run {
  size_t end;
  bool is_content;
};

// Bytes that were made. They grow at the end, in place, so that appending to a
// text again and again costs what is appended: the texts that lie in the
// buffer know their own ends.
struct Buffer {
  std::string bytes;
  std::vector<Run> runs;
};

struct List {
  std::vector<Value> items;
};

// The order of keys, whatever their types, in which 1, 1.0 and true are one.
struct KeyLess {
  bool operator()(const Value& a, const Value& b) const;
};

// Keys keep the order in which they came. Cost: logarithmic, without hashes
// that someone could choose keys against.
class Dict {
 public:
  struct Entry {
    Value key;
    Value value;
  };
  const std::vector<Entry>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }

  // Null: no such key.
  const Value* Find(const Value& key) const;
  void Set(const Value& key, const Value& value);

 private:
  size_t IndexOf(const Value& key) const;  // size(): none

  std::vector<Entry> entries_;
  // Empty while there are so few that looking at each is quicker.
  std::map<Value, size_t, KeyLess> index_;
};

struct Range {
  int64_t start, step, size;
  int64_t At(int64_t i) const { return start + i * step; }
};

struct Loop {
  std::vector<Value> items;  // none once the loop has ended
  size_t size = 0;           // of the items
  size_t index = 0;
  std::vector<Value> last_changed;  // what `changed` was given last
  bool has_changed = false;
};

struct Joiner {
  Value separator;
  bool is_used = false;
};

struct Cycler {
  std::vector<Value> items;
  size_t index = 0;
};

// Arguments of a call, of a filter, or of a test.
struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string_view, Value>> named;
};

inline Value None() { return {.kind = Kind::kNone}; }
inline Value Unset() { return {.kind = Kind::kUnset}; }

inline Value Bool(bool truth) {
  Value value{.kind = Kind::kBool};
  value.truth = truth;
  return value;
}

inline Value Int(int64_t integer) {
  Value value{.kind = Kind::kInt};
  value.integer = integer;
  return value;
}

inline Value Float(double number) {
  Value value{.kind = Kind::kFloat};
  value.number = number;
  return value;
}

// `view` outlives the rendering and has less than 4 GiB.
inline Value OutsideText(std::string_view view, bool is_content) {
  Value value{.kind = Kind::kText, .is_content = is_content};
  value.size = static_cast<uint32_t>(view.size());
  value.data = view.data();
  return value;
}

// `name`, and `owner`, which is null for a variable, outlive the rendering.
inline Value Undefined(std::string_view name, const char* owner) {
  Value value;
  value.size = static_cast<uint32_t>(name.size());
  value.data = name.data();
  value.owner = owner;
  return value;
}

// The bytes of a text, or of an undefined value's name; empty for other values.
// Valid until something is made.
std::string_view View(const Value& value);

inline bool IsText(const Value& value) { return value.kind == Kind::kText; }
inline bool IsNumber(const Value& value) {  // as Python has it, bool included
  return value.kind == Kind::kInt || value.kind == Kind::kFloat ||
         value.kind == Kind::kBool;
}
inline bool IsInt(const Value& value) {
  return value.kind == Kind::kInt || value.kind == Kind::kBool;
}
inline bool IsSequence(const Value& value) {
  return value.kind == Kind::kList || value.kind == Kind::kTuple;
}
inline bool HasList(const Value& value) {
  return IsSequence(value) || value.kind == Kind::kGenerator ||
         value.kind == Kind::kView;
}

bool IsNan(const Value& value);

// Requires IsInt or IsNumber.
int64_t AsInt(const Value& value);
double AsDouble(const Value& value);

bool IsTrue(const Value& value);
bool IsHashable(const Value& value);  // a tuple of lists is not
// -1, 0, 1, exact; NaN equals itself here, and is the greatest. Requires two
// numbers or big integers.
int CompareNumbers(const Value& a, const Value& b);

// What Python calls the type: "str", "NoneType", ...
const char* TypeName(const Value& value);

}  // namespace thermocline::text::jinja

#endif  // THERMOCLINE_TEXT_JINJA_VALUE_H_
