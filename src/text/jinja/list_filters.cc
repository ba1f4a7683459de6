#include <algorithm>
#include <string>
#include <utility>

#include "text/jinja/access.h"
#include "text/jinja/ast.h"
#include "text/jinja/builtins.h"
#include "text/jinja/characters.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"
#include "text/jinja/text_builder.h"

namespace thermocline::text::jinja {
namespace {

// What `attribute` leads to, the item itself if there is none.
Result<Value> PartOf(Runtime& runtime, const Value& item,
                     const Value& attribute) {
  if (!IsGiven(attribute)) return item;
  return GetPath(runtime, item, attribute);
}

Result<Value> Sum(Runtime& runtime, const Value& input, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"attribute", "start"}));
  TC_ASSIGN_OR_RETURN(const auto items, ItemsOf(runtime, input));
  Value sum = bound[1].kind == Kind::kUnset ? Int(0) : bound[1];
  for (const Value& item : items) {
    TC_ASSIGN_OR_RETURN(const Value term, PartOf(runtime, item, bound[0]));
    TC_ASSIGN_OR_RETURN(sum, Calculate(runtime, Operator::kAdd, sum, term));
    TC_RETURN_IF_ERROR(runtime.Check());
  }
  return sum;
}

Result<Value> Join(Runtime& runtime, const Value& input, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"d", "attribute"}));
  Value separator = OutsideText({}, false);
  if (bound[0].kind != Kind::kUnset) {
    TC_ASSIGN_OR_RETURN(separator, ToText(runtime, bound[0]));
  }
  TC_ASSIGN_OR_RETURN(const auto items, ItemsOf(runtime, input));
  TextBuilder builder(runtime);
  bool is_first = true;
  for (const Value& item : items) {
    TC_ASSIGN_OR_RETURN(const Value part, PartOf(runtime, item, bound[1]));
    TC_ASSIGN_OR_RETURN(const Value text, ToText(runtime, part));
    if (!is_first) builder.Append(separator);
    builder.Append(text);
    is_first = false;
  }
  return builder.Finish();
}

Result<Value> First(Runtime& runtime, const Value& input, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {}));
  if (IsText(input) && input.size > 0) {
    return Slice(input, 0, FirstCharacter(View(input)).num_bytes);
  }
  TC_ASSIGN_OR_RETURN(const auto items, ItemsOf(runtime, input));
  return items.empty() ? Undefined("first item", nullptr) : items.front();
}

Result<Value> Last(Runtime& runtime, const Value& input, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {}));
  if (IsText(input) && input.size > 0) {
    const size_t n = LastCharacter(View(input)).num_bytes;
    return Slice(input, input.size - n, n);
  }
  TC_ASSIGN_OR_RETURN(const auto items, ItemsOf(runtime, input));
  return items.empty() ? Undefined("last item", nullptr) : items.back();
}

Result<Value> Length(Runtime& runtime, const Value& input, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {}));
  TC_ASSIGN_OR_RETURN(const int64_t length, LengthOf(runtime, input));
  return Int(length);
}

Result<Value> ToList(Runtime& runtime, const Value& input, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {}));
  TC_ASSIGN_OR_RETURN(auto items, ItemsOf(runtime, input));
  Value list = runtime.NewList(Kind::kList, std::move(items));
  list.is_content = input.is_content;
  return list;
}

Result<Value> Items(Runtime& runtime, const Value& input, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {}));
  ListBuilder items(runtime);
  if (input.kind == Kind::kDict) {
    for (const auto& entry : input.dict->entries()) {
      items.Add(runtime.NewTuple({entry.key, entry.value}));
    }
  } else if (input.kind != Kind::kUndefined) {
    return Fail(ErrorCode::kCorrupt, "a dict is due, not {}", TypeName(input));
  }
  return items.Finish(Kind::kGenerator);
}

Result<Value> Reverse(Runtime& runtime, const Value& input, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {}));
  if (IsText(input)) {
    return GetSlice(runtime, input, None(), None(), Int(-1));
  }
  TC_ASSIGN_OR_RETURN(auto items, ItemsOf(runtime, input));
  std::reverse(items.begin(), items.end());
  return runtime.NewList(Kind::kGenerator, std::move(items));
}

// The arguments behind the first n.
Args Behind(const Args& args, size_t n) {
  Args rest = args;
  rest.positional.erase(
      rest.positional.begin(),
      rest.positional.begin() +
          static_cast<ptrdiff_t>(std::min(n, args.positional.size())));
  return rest;
}

// What map, select and the like run over: what is false has no items, not even
// where it is none.
Result<std::vector<Value>> LazyItemsOf(Runtime& runtime, const Value& input) {
  if (!IsTrue(input)) return std::vector<Value>();
  return ItemsOf(runtime, input);
}

// Of a filter or a test. A copy: texts may move.
Result<std::string> NameOf(const Value& argument) {
  TC_RETURN_IF_ERROR(CheckText(argument));
  constexpr size_t kMostBytes = 64;
  if (argument.size <= kMostBytes) return std::string(View(argument));
  return Fail(ErrorCode::kUnsupported,
              "a name of {} bytes is not among those that templates have here",
              argument.size);
}

Result<Value> MapAttribute(Runtime& runtime, const Value& input,
                           const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound, Bind(args, {"attribute", "default"}));
  TC_ASSIGN_OR_RETURN(const auto items, LazyItemsOf(runtime, input));
  ListBuilder mapped(runtime);
  for (const Value& item : items) {
    TC_ASSIGN_OR_RETURN(Value part, GetPath(runtime, item, bound[0]));
    if (part.kind == Kind::kUndefined && bound[1].kind != Kind::kUnset) {
      part = bound[1];
    }
    mapped.Add(part);
  }
  return mapped.Finish(Kind::kGenerator);
}

Result<Value> Map(Runtime& runtime, const Value& input, const Args& args) {
  if (args.positional.empty()) return MapAttribute(runtime, input, args);
  TC_ASSIGN_OR_RETURN(const std::string name, NameOf(args.positional[0]));
  const Args rest = Behind(args, 1);
  TC_ASSIGN_OR_RETURN(const auto items, LazyItemsOf(runtime, input));
  ListBuilder mapped(runtime);
  // Maps of maps are calls within calls.
  if (name == "map") return Fail(ErrorCode::kUnsupported, "map of maps");
  for (const Value& item : items) {
    if (!runtime.Work(1)) break;
    TC_ASSIGN_OR_RETURN(const Value value,
                        CallFilter(runtime, name, item, rest));
    mapped.Add(value);
  }
  TC_RETURN_IF_ERROR(runtime.Check());
  return mapped.Finish(Kind::kGenerator);
}

// Items for which the test, or the item itself, is as `wanted`.
template <bool kWanted, bool kHasAttribute>
Result<Value> SelectFilter(Runtime& runtime, const Value& input,
                           const Args& args) {
  constexpr size_t kNumAttributes = kHasAttribute ? 1 : 0;
  if (args.positional.size() < kNumAttributes) {
    return Fail(ErrorCode::kCorrupt, "the attribute is missing");
  }
  std::string test;
  if (args.positional.size() > kNumAttributes) {
    TC_ASSIGN_OR_RETURN(test, NameOf(args.positional[kNumAttributes]));
  }
  const Args rest = Behind(args, kNumAttributes + 1);
  TC_ASSIGN_OR_RETURN(const auto items, LazyItemsOf(runtime, input));
  ListBuilder selected(runtime);
  for (const Value& item : items) {
    if (!runtime.Work(1)) break;
    Value tested = item;
    if (kHasAttribute) {
      TC_ASSIGN_OR_RETURN(tested, GetPath(runtime, item, args.positional[0]));
    }
    bool is_selected = IsTrue(tested);
    if (!test.empty()) {
      TC_ASSIGN_OR_RETURN(is_selected, CallTest(runtime, test, tested, rest));
    }
    if (is_selected == kWanted) selected.Add(item);
  }
  TC_RETURN_IF_ERROR(runtime.Check());
  return selected.Finish(Kind::kGenerator);
}

Result<Value> Batch(Runtime& runtime, const Value& input, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound,
                      Bind(args, {"linecount", "fill_with"}, 1));
  TC_ASSIGN_OR_RETURN(const int64_t size, IntOf(bound[0], 0));
  TC_ASSIGN_OR_RETURN(const auto items, ItemsOf(runtime, input));
  if (size < 1) return Fail(ErrorCode::kCorrupt, "batches of {}", size);
  ListBuilder batches(runtime);
  for (size_t begin = 0; begin < items.size() && !runtime.spent();) {
    const size_t end =
        begin + std::min(static_cast<size_t>(size), items.size() - begin);
    ListBuilder batch(runtime);
    for (size_t i = begin; i < end; ++i) batch.Add(items[i]);
    if (IsGiven(bound[1])) {
      for (auto i = static_cast<int64_t>(end - begin);
           i < size && !runtime.spent(); ++i) {
        batch.Add(bound[1]);
      }
    }
    batches.Add(batch.Finish());
    begin = end;
  }
  return batches.Finish(Kind::kGenerator);
}

constexpr FilterEntry kListFilters[] = {
    {"batch", Batch},
    {"count", Length},
    {"first", First},
    {"items", Items},
    {"join", Join},
    {"last", Last},
    {"length", Length},
    {"list", ToList},
    {"map", Map},
    {"reject", SelectFilter<false, false>},
    {"rejectattr", SelectFilter<false, true>},
    {"reverse", Reverse},
    {"select", SelectFilter<true, false>},
    {"selectattr", SelectFilter<true, true>},
    {"sum", Sum},
};

}  // namespace

std::span<const FilterEntry> ListFilters() { return kListFilters; }

}  // namespace thermocline::text::jinja
