#include "text/jinja/access.h"

#include <algorithm>
#include <optional>
#include <string>

#include "text/jinja/builtins.h"
#include "text/jinja/characters.h"
#include "text/jinja/operators.h"
#include "text/jinja/text_builder.h"
#include "text/jinja/text_ops.h"

namespace thermocline::text::jinja {
namespace {

Value LoopAttribute(const Loop& loop, std::string_view name) {
  const auto size = static_cast<int64_t>(loop.size);
  const auto index = static_cast<int64_t>(loop.index);
  if (name == "index") return Int(index + 1);
  if (name == "index0") return Int(index);
  if (name == "revindex") return Int(size - index);
  if (name == "revindex0") return Int(size - index - 1);
  if (name == "first") return Bool(index == 0);
  if (name == "last") return Bool(index + 1 == size);
  if (name == "length") return Int(size);
  if (name == "depth") return Int(1);
  if (name == "depth0") return Int(0);
  if (loop.items.empty()) return Unset();
  if (name == "previtem" && index > 0) return loop.items[loop.index - 1];
  if (name == "nextitem" && index + 1 < size) return loop.items[loop.index + 1];
  return Unset();
}

// A member that is no item; kUnset: there is none.
Value MemberOf(Runtime& runtime, const Value& value, std::string_view name) {
  if (const MethodEntry* entry = FindMethod(value, name)) {
    Value method{.kind = Kind::kMethod};
    method.method = runtime.New(&runtime.methods, {value, entry});
    return method;
  }
  switch (value.kind) {
    case Kind::kNamespace:
      if (const Value* member =
              runtime.FindItem(*value.dict, OutsideText(name, false))) {
        return *member;
      }
      return Unset();
    case Kind::kLoop:
      return LoopAttribute(*value.loop, name);
    case Kind::kMacro: {
      const MacroStatement& macro = *value.macro->statement;
      if (name == "name") return OutsideText(macro.own_name, false);
      if (name != "arguments") return Unset();
      std::vector<Value> names;
      for (const auto& parameter : macro.parameters) {
        names.push_back(OutsideText(parameter.second, false));
      }
      return runtime.NewTuple(std::move(names));
    }
    case Kind::kCycler:
      if (name != "current") return Unset();
      return value.cycler->items[value.cycler->index];
    case Kind::kTuple:  // what groupby gives
      if (value.list->items.size() != 2) return Unset();
      if (name == "grouper") return value.list->items[0];
      if (name == "list") return value.list->items[1];
      return Unset();
    default:
      return Unset();
  }
}

// From the end where it is negative; kUnset: past the ends.
std::optional<size_t> Position(int64_t index, size_t size) {
  const auto signed_size = static_cast<int64_t>(size);
  if (index < 0) index += signed_size;
  if (index < 0 || index >= signed_size) return std::nullopt;
  return static_cast<size_t>(index);
}

Value CharacterAt(Runtime& runtime, const Value& text, int64_t index) {
  const std::string_view bytes = View(text);
  if (index < 0) {
    std::string_view rest = bytes;
    for (; index < -1 && !rest.empty(); ++index) {
      rest.remove_suffix(LastCharacter(rest).num_bytes);
    }
    runtime.Walk(bytes.size() - rest.size());
    if (rest.empty()) return Unset();
    const size_t n = LastCharacter(rest).num_bytes;
    return Slice(text, rest.size() - n, n);
  }
  const size_t at = ByteOfCharacter(bytes, static_cast<size_t>(index));
  runtime.Walk(at);
  if (at == bytes.size()) return Unset();
  return Slice(text, at, FirstCharacter(bytes.substr(at)).num_bytes);
}

// kUnset: there is none.
Value ItemOf(Runtime& runtime, const Value& value, const Value& key) {
  if (value.kind == Kind::kDict) {
    const Value* item = runtime.FindItem(*value.dict, key);
    return item == nullptr ? Unset() : *item;
  }
  if (!IsInt(key)) return Unset();
  if (IsText(value)) return CharacterAt(runtime, value, AsInt(key));
  if (IsSequence(value)) {
    const auto position = Position(AsInt(key), value.list->items.size());
    return position ? value.list->items[*position] : Unset();
  }
  if (value.kind == Kind::kRange) {
    const auto position =
        Position(AsInt(key), static_cast<size_t>(value.range->size));
    if (position) return Int(value.range->At(static_cast<int64_t>(*position)));
  }
  return Unset();
}

Value Missing(const Value& value, std::string_view name) {
  return Undefined(name, TypeName(value));
}

// Python's slice.indices: which positions of `size`.
struct Positions {
  int64_t start, step, count;
};

Result<Positions> ResolveSlice(const Value& start, const Value& stop,
                               const Value& step, int64_t size) {
  Positions positions{0, 1, 0};
  if (step.kind != Kind::kNone) positions.step = AsInt(step);
  if (positions.step == 0) {
    return Fail(ErrorCode::kCorrupt, "the step of a slice is zero");
  }
  const bool is_back = positions.step < 0;
  const int64_t low = is_back ? -1 : 0;
  const int64_t high = is_back ? size - 1 : size;
  const auto clamp = [&](const Value& value, int64_t otherwise) {
    if (value.kind == Kind::kNone) return otherwise;
    int64_t index = AsInt(value);
    if (index < 0) index += size;
    return std::clamp(index, low, high);
  };
  positions.start = clamp(start, is_back ? high : low);
  const int64_t end = clamp(stop, is_back ? low : high);
  const int64_t distance =
      is_back ? positions.start - end : end - positions.start;
  if (distance > 0) {
    // Steps past the size are all the same, and do not overflow.
    positions.step = std::clamp(positions.step, -size - 1, size + 1);
    const int64_t step_size = std::abs(positions.step);
    positions.count = (distance - 1) / step_size + 1;
  }
  return positions;
}

Value SliceOfText(Runtime& runtime, const Value& text,
                  const Positions& positions) {
  const std::string_view bytes = View(text);
  const auto start = static_cast<size_t>(positions.start);
  const auto count = static_cast<size_t>(positions.count);
  if (count == 0) return Slice(text, 0, 0);
  if (positions.step == 1) {
    const size_t begin = ByteOfCharacter(bytes, start);
    const size_t size = ByteOfCharacter(bytes.substr(begin), count);
    return Slice(text, begin, size);
  }
  const Value characters = ToCharacters(runtime, text);
  if (runtime.spent()) return Slice(text, 0, 0);
  TextBuilder builder(runtime);
  for (int64_t i = 0; i < positions.count; ++i) {
    builder.Append(
        characters.list
            ->items[static_cast<size_t>(positions.start + i * positions.step)]);
  }
  Value slice = builder.Finish();
  slice.is_safe = text.is_safe;
  return slice;
}

}  // namespace

Result<Value> GetAttribute(Runtime& runtime, const Value& value,
                           std::string_view name) {
  TC_RETURN_IF_ERROR(CheckDefined(value));
  if (name.starts_with('_')) return Missing(value, name);
  const Value member = MemberOf(runtime, value, name);
  if (member.kind != Kind::kUnset) return member;
  const Value item = ItemOf(runtime, value, OutsideText(name, false));
  return item.kind == Kind::kUnset ? Missing(value, name) : item;
}

Result<Value> GetItem(Runtime& runtime, const Value& value, const Value& key) {
  TC_RETURN_IF_ERROR(CheckDefined(value));
  const Value item = ItemOf(runtime, value, key);
  if (item.kind != Kind::kUnset) return item;
  // A name within a buffer may move: it is told only where it stays.
  const std::string_view name =
      IsText(key) && key.buffer == nullptr ? View(key) : "item";
  if (IsText(key) && !View(key).starts_with('_')) {
    const Value member = MemberOf(runtime, value, View(key));
    if (member.kind != Kind::kUnset) return member;
  }
  return Missing(value, name);
}

Result<Value> GetPath(Runtime& runtime, const Value& value, const Value& path) {
  if (!IsText(path)) return GetItem(runtime, value, path);
  Value at = value;
  runtime.Scan(path.size);
  for (size_t begin = 0; begin <= path.size;) {
    if (!runtime.Work(1)) TC_RETURN_IF_ERROR(runtime.Check());
    const size_t end = std::min<size_t>(View(path).find('.', begin), path.size);
    Value key = Slice(path, begin, end - begin);
    const std::string_view part = View(key);
    const bool is_index = !part.empty() && part.size() < 10 &&
                          std::all_of(
                              part.begin(), part.end(),
                              [](char c) { return c >= '0' && c <= '9'; });
    if (is_index) key = Int(std::stol(std::string(part)));
    TC_ASSIGN_OR_RETURN(at, GetItem(runtime, at, key));
    begin = end + 1;
  }
  return at;
}

Result<Value> GetSlice(Runtime& runtime, const Value& value, const Value& start,
                       const Value& stop, const Value& step) {
  TC_RETURN_IF_ERROR(CheckDefined(value));
  for (const Value* index : {&start, &stop, &step}) {
    if (index->kind != Kind::kNone && !IsInt(*index)) {
      return Missing(value, "slice");
    }
  }
  if (!IsText(value) && !IsSequence(value) && value.kind != Kind::kRange) {
    return Missing(value, "slice");
  }
  TC_ASSIGN_OR_RETURN(const int64_t size, LengthOf(runtime, value));
  TC_ASSIGN_OR_RETURN(const Positions positions,
                      ResolveSlice(start, stop, step, size));
  if (IsText(value)) return SliceOfText(runtime, value, positions);
  ListBuilder items(runtime);
  for (int64_t i = 0; i < positions.count; ++i) {
    items.Add(
        ItemOf(runtime, value, Int(positions.start + i * positions.step)));
  }
  Value list =
      items.Finish(value.kind == Kind::kTuple ? Kind::kTuple : Kind::kList);
  list.is_content = value.is_content;
  return list;
}

Result<std::vector<Value>> ItemsOf(Runtime& runtime, const Value& value) {
  if (HasList(value)) {
    const size_t num_bytes = value.list->items.size() * sizeof(Value);
    runtime.Scan(num_bytes);
    runtime.Charge(num_bytes);
    TC_RETURN_IF_ERROR(runtime.Check());
    return value.list->items;
  }
  ListBuilder items(runtime);
  switch (value.kind) {
    case Kind::kUndefined:
      break;
    case Kind::kText:
      return std::move(ToCharacters(runtime, value).list->items);
    case Kind::kDict:
      for (const Dict::Entry& entry : value.dict->entries()) {
        items.Add(entry.key);
      }
      break;
    case Kind::kRange:
      for (int64_t i = 0; i < value.range->size; ++i) {
        items.Add(Int(value.range->At(i)));
      }
      break;
    default:
      return Fail(ErrorCode::kCorrupt, "there are no items in {}",
                  TypeName(value));
  }
  TC_RETURN_IF_ERROR(runtime.Check());
  return items.Take();
}

Result<int64_t> LengthOf(Runtime& runtime, const Value& value) {
  switch (value.kind) {
    case Kind::kUndefined:
      return 0;
    case Kind::kText:
      runtime.Walk(value.size);
      return static_cast<int64_t>(NumCharacters(View(value)));
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
      return static_cast<int64_t>(value.list->items.size());
    case Kind::kDict:
      return static_cast<int64_t>(value.dict->size());
    case Kind::kRange:
      return value.range->size;
    case Kind::kLoop:
      return static_cast<int64_t>(value.loop->size);
    default:
      return Fail(ErrorCode::kCorrupt, "{} has no length", TypeName(value));
  }
}

}  // namespace thermocline::text::jinja
