// What templates call by name: methods of values, functions, filters, tests.
// Each is a row in a table; what is in none is not there.
//
// They get their arguments evaluated, and fail without a line: kUnsupported and
// kCorrupt, with a message that does not say whose arguments they were. The
// evaluator adds both.
#ifndef THERMOCLINE_TEXT_JINJA_BUILTINS_H_
#define THERMOCLINE_TEXT_JINJA_BUILTINS_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace thermocline::text::jinja {

struct MethodEntry {
  std::string_view name;
  // Null: the method is there, as templates that ask for it see, but is not
  // among those that can be called.
  Result<Value> (*call)(Runtime& runtime, const Value& self, const Args& args);
};
struct FunctionEntry {
  std::string_view name;
  Result<Value> (*call)(Runtime& runtime, const Args& args);
};
struct FilterEntry {
  std::string_view name;
  Result<Value> (*call)(Runtime& runtime, const Value& input, const Args& args);
};
struct TestEntry {
  std::string_view name;
  Result<bool> (*call)(Runtime& runtime, const Value& input, const Args& args);
};

// Null: there is none.
const MethodEntry* FindMethod(const Value& self, std::string_view name);
const FunctionEntry* FindFunction(std::string_view name);
const FilterEntry* FindFilter(std::string_view name);
const TestEntry* FindTest(std::string_view name);

// By name, with errors that name it.
Result<Value> CallFilter(Runtime& runtime, std::string_view name,
                         const Value& input, const Args& args);
Result<bool> CallTest(Runtime& runtime, std::string_view name,
                      const Value& input, const Args& args);

// A method, a function, `joiner` and the like; not a macro.
Result<Value> CallBuiltin(Runtime& runtime, const Value& callee,
                          const Args& args);

// The arguments in the order of `names`, kUnset where one was not given.
// kCorrupt: more than that, or one of the first `num_required` is missing.
Result<std::vector<Value>> Bind(const Args& args,
                                std::initializer_list<std::string_view> names,
                                size_t num_required = 0);

// What an argument is; `otherwise` where it was not given.
Result<int64_t> IntOf(const Value& argument, int64_t otherwise);
inline bool IsGiven(const Value& argument) {  // and is not None
  return argument.kind != Kind::kUnset && argument.kind != Kind::kNone;
}
bool TruthOf(const Value& argument, bool otherwise);
// kCorrupt: the argument is no text.
Status CheckText(const Value& argument);

// Tables of several files.
std::span<const MethodEntry> TextMethods();
std::span<const FilterEntry> TextFilters();
std::span<const FilterEntry> ListFilters();
std::span<const FilterEntry> OrderFilters();

// The first row of that name; null: there is none.
template <typename Entry>
const Entry* FindEntry(std::span<const Entry> table, std::string_view name) {
  for (const Entry& entry : table) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

}  // namespace thermocline::text::jinja

#endif  // THERMOCLINE_TEXT_JINJA_BUILTINS_H_
