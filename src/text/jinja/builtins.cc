#include "text/jinja/builtins.h"

#include <algorithm>
#include <limits>
#include <string>

#include "text/jinja/operators.h"
#include "text/jinja/printing.h"
#include "text/jinja/text_builder.h"

namespace thermocline::text::jinja {
namespace {

Result<Value> DictGet(Runtime& runtime, const Value& self, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"key", "default"}, 1));
  if (!IsHashable(bound[0])) {
    return Fail(ErrorCode::kCorrupt, "{} is no key", TypeName(bound[0]));
  }
  if (const Value* item = runtime.FindItem(*self.dict, bound[0])) return *item;
  return bound[1].kind == Kind::kUnset ? None() : bound[1];
}

enum class DictPart { kKeys, kValues, kItems };

template <DictPart kPart>
Result<Value> DictParts(Runtime& runtime, const Value& self, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {}));
  ListBuilder parts(runtime);
  for (const Dict::Entry& entry : self.dict->entries()) {
    if (runtime.spent()) break;
    if (kPart == DictPart::kKeys) parts.Add(entry.key);
    if (kPart == DictPart::kValues) parts.Add(entry.value);
    if (kPart == DictPart::kItems) {
      parts.Add(runtime.NewTuple({entry.key, entry.value}));
    }
  }
  return parts.Finish(Kind::kView);
}

Result<Value> DictCopy(Runtime& runtime, const Value& self, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {}));
  Value copy = runtime.NewDict();
  for (const Dict::Entry& entry : self.dict->entries()) {
    runtime.SetItem(copy.dict, entry.key, entry.value);
  }
  copy.is_content = self.is_content;
  return copy;
}

constexpr MethodEntry kDictMethods[] = {
    {"clear", nullptr},
    {"copy", DictCopy},
    {"fromkeys", nullptr},
    {"get", DictGet},
    {"items", DictParts<DictPart::kItems>},
    {"keys", DictParts<DictPart::kKeys>},
    {"pop", nullptr},
    {"popitem", nullptr},
    {"setdefault", nullptr},
    {"update", nullptr},
    {"values", DictParts<DictPart::kValues>},
};

Result<Value> ListAppend(Runtime& runtime, const Value& self,
                         const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"object"}, 1));
  if (runtime.Charge(sizeof(Value))) self.list->items.push_back(bound[0]);
  return None();
}

Result<Value> ListPop(Runtime& runtime, const Value& self, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"index"}));
  TC_ASSIGN_OR_RETURN(int64_t index, IntOf(bound[0], -1));
  std::vector<Value>& items = self.list->items;
  const auto size = static_cast<int64_t>(items.size());
  if (index < 0) index += size;
  if (index < 0 || index >= size) {
    return Fail(ErrorCode::kCorrupt, "the list has no such item");
  }
  runtime.Scan(static_cast<size_t>(size - index) * sizeof(Value));
  const auto at = items.begin() + index;
  const Value item = *at;
  items.erase(at);
  return item;
}

Result<Value> ListCount(Runtime& runtime, const Value& self, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"value"}, 1));
  const auto& items = self.list->items;
  return Int(std::count_if(items.begin(), items.end(), [&](const Value& item) {
    return AreEqual(runtime, item, bound[0]);
  }));
}

Result<Value> ListIndex(Runtime& runtime, const Value& self, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"value"}, 1));
  const auto& items = self.list->items;
  const auto at = std::find_if(
      items.begin(), items.end(),
      [&](const Value& item) { return AreEqual(runtime, item, bound[0]); });
  if (at == items.end()) {
    return Fail(ErrorCode::kCorrupt, "the list does not hold that");
  }
  return Int(at - items.begin());
}

Result<Value> ListCopy(Runtime& runtime, const Value& self, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {}));
  ListBuilder copy(runtime);
  for (const Value& item : self.list->items) copy.Add(item);
  Value list = copy.Finish();
  list.is_content = self.is_content;
  return list;
}

constexpr MethodEntry kListMethods[] = {
    {"append", ListAppend}, {"clear", nullptr},  {"copy", ListCopy},
    {"count", ListCount},   {"extend", nullptr}, {"index", ListIndex},
    {"insert", nullptr},    {"pop", ListPop},    {"remove", nullptr},
    {"reverse", nullptr},   {"sort", nullptr},
};

constexpr MethodEntry kTupleMethods[] = {{"count", ListCount},
                                         {"index", ListIndex}};

Result<Value> LoopCycle(Runtime&, const Value& self, const Args& args) {
  if (args.positional.empty() || !args.named.empty()) {
    return Fail(ErrorCode::kCorrupt, "nothing to go round in");
  }
  return args.positional[self.loop->index % args.positional.size()];
}

Result<Value> LoopChanged(Runtime& runtime, const Value& self,
                          const Args& args) {
  Loop& loop = *self.loop;
  const auto& now = args.positional;
  const auto& last = loop.last_changed;
  const bool is_same =
      loop.has_changed &&
      std::equal(now.begin(), now.end(), last.begin(), last.end(),
                 [&](const Value& a, const Value& b) {
                   return AreEqual(runtime, a, b);
                 });
  loop.has_changed = true;
  if (!is_same) loop.last_changed = now;
  return Bool(!is_same);
}

constexpr MethodEntry kLoopMethods[] = {{"changed", LoopChanged},
                                        {"cycle", LoopCycle}};

Result<Value> CyclerNext(Runtime&, const Value& self, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {}));
  Cycler& cycler = *self.cycler;
  const Value item = cycler.items[cycler.index];
  cycler.index = (cycler.index + 1) % cycler.items.size();
  return item;
}

Result<Value> CyclerReset(Runtime&, const Value& self, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {}));
  self.cycler->index = 0;
  return None();
}

constexpr MethodEntry kCyclerMethods[] = {{"next", CyclerNext},
                                          {"reset", CyclerReset}};

std::span<const MethodEntry> MethodsOf(Kind kind) {
  switch (kind) {
    case Kind::kText:
      return TextMethods();
    case Kind::kDict:
      return kDictMethods;
    case Kind::kList:
      return kListMethods;
    case Kind::kTuple:
      return kTupleMethods;
    case Kind::kLoop:
      return kLoopMethods;
    case Kind::kCycler:
      return kCyclerMethods;
    default:
      return {};
  }
}

Result<Value> CallJoiner(const Value& callee, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {}));
  Joiner& joiner = *callee.joiner;
  if (joiner.is_used) return joiner.separator;
  joiner.is_used = true;
  return OutsideText({}, false);
}

template <typename T>
Result<T> Named(std::string_view what, std::string_view name,
                Result<T> result) {
  if (result.has_value() ||
      result.error().code == ErrorCode::kResourceExhausted) {
    return result;
  }
  return Annotate(fmt::format("the {} '{}'", what, name), result.error());
}

}  // namespace

const MethodEntry* FindMethod(const Value& self, std::string_view name) {
  return FindEntry(MethodsOf(self.kind), name);
}

Result<Value> CallFilter(Runtime& runtime, std::string_view name,
                         const Value& input, const Args& args) {
  const FilterEntry* filter = FindFilter(name);
  if (filter == nullptr) {
    return Fail(ErrorCode::kUnsupported,
                "the filter '{}' is not among those that templates have here",
                name);
  }
  return Named("filter", name, filter->call(runtime, input, args));
}

Result<bool> CallTest(Runtime& runtime, std::string_view name,
                      const Value& input, const Args& args) {
  const TestEntry* test = FindTest(name);
  if (test == nullptr) {
    return Fail(ErrorCode::kUnsupported,
                "the test '{}' is not among those that templates have here",
                name);
  }
  return Named("test", name, test->call(runtime, input, args));
}

Result<Value> CallBuiltin(Runtime& runtime, const Value& callee,
                          const Args& args) {
  TC_RETURN_IF_ERROR(CheckDefined(callee));
  if (callee.kind == Kind::kFunction) {
    const FunctionEntry& function = *callee.function;
    // What raise_exception says is the template's own message.
    if (function.name == "raise_exception") return function.call(runtime, args);
    return Named("function", function.name, function.call(runtime, args));
  }
  if (callee.kind == Kind::kMethod) {
    const BoundMethod& method = *callee.method;
    if (method.entry->call == nullptr) {
      return Fail(ErrorCode::kUnsupported,
                  "the method '{}' of {} is not among those that templates "
                  "have here",
                  method.entry->name, TypeName(method.self));
    }
    return Named("method", method.entry->name,
                 method.entry->call(runtime, method.self, args));
  }
  if (callee.kind == Kind::kJoiner) return CallJoiner(callee, args);
  return Fail(ErrorCode::kCorrupt, "{} cannot be called", TypeName(callee));
}

Result<std::vector<Value>> Bind(const Args& args,
                                std::initializer_list<std::string_view> names,
                                size_t num_required) {
  std::vector<Value> bound = args.positional;
  if (bound.size() > names.size()) {
    return Fail(ErrorCode::kCorrupt, "{} arguments, more than {}", bound.size(),
                names.size());
  }
  bound.resize(names.size(), Unset());
  for (const auto& [name, value] : args.named) {
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) {
      return Fail(ErrorCode::kCorrupt, "there is no argument '{}'", name);
    }
    Value& place = bound[static_cast<size_t>(at - names.begin())];
    if (place.kind != Kind::kUnset) {
      return Fail(ErrorCode::kCorrupt, "the argument '{}' is there twice",
                  name);
    }
    place = value;
  }
  for (size_t i = 0; i < num_required; ++i) {
    if (bound[i].kind == Kind::kUnset) {
      return Fail(ErrorCode::kCorrupt, "the argument '{}' is missing",
                  names.begin()[i]);
    }
  }
  return bound;
}

Result<int64_t> IntOf(const Value& argument, int64_t otherwise) {
  if (argument.kind == Kind::kUnset) return otherwise;
  TC_RETURN_IF_ERROR(CheckDefined(argument));
  if (IsInt(argument)) return AsInt(argument);
  return Fail(ErrorCode::kCorrupt, "a number is due, not {}",
              TypeName(argument));
}

bool TruthOf(const Value& argument, bool otherwise) {
  return argument.kind == Kind::kUnset ? otherwise : IsTrue(argument);
}

Status CheckText(const Value& argument) {
  TC_RETURN_IF_ERROR(CheckDefined(argument));
  if (IsText(argument)) return {};
  return Fail(ErrorCode::kCorrupt, "a text is due, not {}", TypeName(argument));
}

}  // namespace thermocline::text::jinja
