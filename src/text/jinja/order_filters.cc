#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "text/jinja/access.h"
#include "text/jinja/builtins.h"
#include "text/jinja/operators.h"
#include "text/jinja/text_ops.h"

namespace thermocline::text::jinja {
namespace {

// An item, and what it is sorted or compared by.
struct KeyedItem {
  Value key;
  Value item;
};

// What `attribute` leads to, the item itself if there is none; texts in lower
// case unless case matters. Several attributes, with commas, are a tuple.
Result<Value> KeyOf(Runtime& runtime, const Value& item, const Value& attribute,
                    bool case_sensitive) {
  Value key = item;
  if (IsGiven(attribute)) {
    if (IsText(attribute) && runtime.Scan(attribute.size) &&
        View(attribute).find(',') != std::string_view::npos) {
      const Value paths = SplitAt(runtime, attribute, ",", ~uint64_t{0}, false);
      ListBuilder keys(runtime);
      for (const Value& path : paths.list->items) {
        TC_ASSIGN_OR_RETURN(const Value part,
                            KeyOf(runtime, item, StripSpace(runtime, path, {}),
                                  case_sensitive));
        keys.Add(part);
      }
      return keys.Finish(Kind::kTuple);
    }
    TC_ASSIGN_OR_RETURN(key, GetPath(runtime, item, attribute));
  }
  if (!case_sensitive && IsText(key)) return ToLower(runtime, key);
  return key;
}

Result<std::vector<KeyedItem>> KeyedItems(Runtime& runtime, const Value& input,
                                          const Value& attribute,
                                          bool case_sensitive) {
  TC_ASSIGN_OR_RETURN(const auto items, ItemsOf(runtime, input));
  std::vector<KeyedItem> keyed;
  for (const Value& item : items) {
    TC_ASSIGN_OR_RETURN(const Value key,
                        KeyOf(runtime, item, attribute, case_sensitive));
    keyed.push_back({key, item});
  }
  return keyed;
}

// Merges what lies in [begin, middle) and [middle, end), both in order.
// kCorrupt: keys that are not comparable.
Status MergeByKey(Runtime& runtime, bool reverse, size_t begin, size_t middle,
                  size_t end, std::vector<KeyedItem>* keyed) {
  std::vector<KeyedItem> merged;
  size_t left = begin, right = middle;
  while (left < middle && right < end) {
    const Value& a = (*keyed)[left].key;
    const Value& b = (*keyed)[right].key;
    TC_ASSIGN_OR_RETURN(const bool takes_right, reverse
                                                    ? IsLess(runtime, a, b)
                                                    : IsLess(runtime, b, a));
    merged.push_back((*keyed)[takes_right ? right++ : left++]);
  }
  while (left < middle) merged.push_back((*keyed)[left++]);
  std::copy(merged.begin(), merged.end(),
            keyed->begin() + static_cast<ptrdiff_t>(begin));
  return {};
}

// Stable. Its steps do not depend on what keys say of each other: NaN, which
// has no order, does no harm.
Status SortByKey(Runtime& runtime, bool reverse,
                 std::vector<KeyedItem>* keyed) {
  const size_t size = keyed->size();
  for (size_t width = 1; width < size; width *= 2) {
    for (size_t begin = 0; begin + width < size; begin += 2 * width) {
      TC_RETURN_IF_ERROR(MergeByKey(runtime, reverse, begin, begin + width,
                                    std::min(begin + 2 * width, size), keyed));
    }
  }
  return {};
}

Value ItemsIn(Runtime& runtime, const std::vector<KeyedItem>& keyed) {
  ListBuilder items(runtime);
  for (const KeyedItem& item : keyed) items.Add(item.item);
  return items.Finish();
}

Result<Value> SortFilter(Runtime& runtime, const Value& input,
                         const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound,
                      Bind(args, {"reverse", "case_sensitive", "attribute"}));
  TC_ASSIGN_OR_RETURN(auto keyed, KeyedItems(runtime, input, bound[2],
                                             TruthOf(bound[1], false)));
  TC_RETURN_IF_ERROR(SortByKey(runtime, TruthOf(bound[0], false), &keyed));
  return ItemsIn(runtime, keyed);
}

Result<Value> DictSort(Runtime& runtime, const Value& input, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound,
                      Bind(args, {"case_sensitive", "by", "reverse"}));
  if (input.kind != Kind::kDict) {
    return Fail(ErrorCode::kCorrupt, "a dict is due, not {}", TypeName(input));
  }
  const bool by_value = IsText(bound[1]) && View(bound[1]) == "value";
  if (IsGiven(bound[1]) && !by_value && View(bound[1]) != "key") {
    return Fail(ErrorCode::kCorrupt, "'by' is neither key nor value");
  }
  std::vector<KeyedItem> keyed;
  for (const auto& entry : input.dict->entries()) {
    TC_ASSIGN_OR_RETURN(const Value key,
                        KeyOf(runtime, by_value ? entry.value : entry.key,
                              Unset(), TruthOf(bound[0], false)));
    keyed.push_back({key, runtime.NewTuple({entry.key, entry.value})});
  }
  TC_RETURN_IF_ERROR(SortByKey(runtime, TruthOf(bound[2], false), &keyed));
  return ItemsIn(runtime, keyed);
}

Result<Value> GroupBy(Runtime& runtime, const Value& input, const Args& args) {
  TC_ASSIGN_OR_RETURN(
      const auto bound,
      Bind(args, {"attribute", "default", "case_sensitive"}, 1));
  if (IsGiven(bound[1])) {
    return Fail(ErrorCode::kUnsupported, "the argument 'default'");
  }
  const bool case_sensitive = TruthOf(bound[2], false);
  TC_ASSIGN_OR_RETURN(auto keyed,
                      KeyedItems(runtime, input, bound[0], case_sensitive));
  TC_RETURN_IF_ERROR(SortByKey(runtime, false, &keyed));
  ListBuilder groups(runtime);
  for (size_t begin = 0; begin < keyed.size();) {
    size_t end = begin;
    ListBuilder group(runtime);
    while (end < keyed.size() &&
           AreEqual(runtime, keyed[begin].key, keyed[end].key)) {
      group.Add(keyed[end++].item);
    }
    TC_RETURN_IF_ERROR(runtime.Check());
    // NaN is not even equal to itself.
    end = std::max(end, begin + 1);
    TC_ASSIGN_OR_RETURN(const Value name,
                        KeyOf(runtime, keyed[begin].item, bound[0], true));
    groups.Add(runtime.NewTuple({name, group.Finish()}));
    begin = end;
  }
  return groups.Finish();
}

Result<Value> Unique(Runtime& runtime, const Value& input, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound,
                      Bind(args, {"case_sensitive", "attribute"}));
  TC_ASSIGN_OR_RETURN(const auto keyed, KeyedItems(runtime, input, bound[1],
                                                   TruthOf(bound[0], false)));
  std::set<Value, KeyLess> seen;
  ListBuilder items(runtime);
  for (const KeyedItem& item : keyed) {
    if (!runtime.CompareKey(item.key)) break;
    if (!IsHashable(item.key)) {
      return Fail(ErrorCode::kCorrupt, "{} cannot be looked up",
                  TypeName(item.key));
    }
    if (seen.insert(item.key).second) items.Add(item.item);
  }
  return items.Finish(Kind::kGenerator);
}

template <bool kIsMax>
Result<Value> Extreme(Runtime& runtime, const Value& input, const Args& args) {
  TC_ASSIGN_OR_RETURN(const auto bound,
                      Bind(args, {"case_sensitive", "attribute"}));
  TC_ASSIGN_OR_RETURN(const auto keyed, KeyedItems(runtime, input, bound[1],
                                                   TruthOf(bound[0], false)));
  if (keyed.empty()) return Undefined("item of an empty list", nullptr);
  size_t best = 0;
  for (size_t i = 1; i < keyed.size(); ++i) {
    const Value& left = keyed[kIsMax ? best : i].key;
    const Value& right = keyed[kIsMax ? i : best].key;
    TC_ASSIGN_OR_RETURN(const bool is_better, IsLess(runtime, left, right));
    if (is_better) best = i;
  }
  return keyed[best].item;
}

constexpr FilterEntry kOrderFilters[] = {
    {"dictsort", DictSort},  {"groupby", GroupBy}, {"max", Extreme<true>},
    {"min", Extreme<false>}, {"sort", SortFilter}, {"unique", Unique},
};

}  // namespace

std::span<const FilterEntry> OrderFilters() { return kOrderFilters; }

}  // namespace thermocline::text::jinja
