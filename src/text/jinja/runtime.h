// What one rendering has: the objects that it made, what it may still make, and
// its clock. For one thread.
#ifndef THERMOCLINE_TEXT_JINJA_RUNTIME_H_
#define THERMOCLINE_TEXT_JINJA_RUNTIME_H_

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <deque>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "text/jinja/limits.h"
#include "text/jinja/value.h"

namespace thermocline::text::jinja {

// A method that has got what it is of.
struct MethodEntry;
struct BoundMethod {
  Value self;
  const MethodEntry* entry;
};

// Names and their values within a round of a loop, a macro, ... The outermost
// one has a place for each name of the template.
struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<int, Value>> values;
  bool is_captured = false;  // by a macro, which may be called later
};

struct MacroStatement;
struct MacroObject {
  const MacroStatement* statement;
  Scope* scope;  // where it was defined
};

// The limits stop what is made before it is made: past them nothing is added
// any more, and whoever makes something asks `spent` now and then, the
// evaluator at each step. So no function that makes texts and lists has to
// fail in the middle.
class Runtime {
 public:
  Runtime(const Limits& limits, const std::tm& now);
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // False, and spent from then on, where a limit forbids so much.
  bool Charge(size_t num_bytes);
  bool Work(size_t num_steps);
  // Takes back what was charged for something that is not there any more.
  void GiveBack(size_t num_bytes) { bytes_left_ += num_bytes; }
  // Work of looking at so many bytes: at many at once, as memcmp does; at each
  // character; for a text of `size` bytes anywhere in them, which in the worst
  // case is compared everywhere.
  bool Scan(size_t num_bytes) { return Work(num_bytes / 64); }
  bool Walk(size_t num_bytes) { return Work(num_bytes / 8); }
  bool ScanFor(size_t num_bytes, size_t size);
  // Work of looking for a key among others.
  bool CompareKey(const Value& key);
  bool spent() const { return what_ != Spent::kNothing; }
  // The error of what is spent; success if nothing is.
  Status Check() const;
  // Walks into values by recursion: how deep they may lie.
  int nesting() const { return limits_.nesting; }
  Status TooDeep();
  const Limits& limits() const { return limits_; }
  const std::tm& now() const { return now_; }

  Buffer* NewBuffer();
  Value NewList(Kind kind, std::vector<Value> items);
  Value NewTuple(std::vector<Value> items);
  Value NewDict();
  Scope* NewScope(Scope* parent);
  template <typename T>
  T* New(std::deque<T>* pool, T object) {
    Charge(sizeof(T));
    return &pool->emplace_back(std::move(object));
  }
  // Null: no such key, none that could be one, or a limit is spent.
  const Value* FindItem(const Dict& dict, const Value& key);
  // Set of a dictionary that this rendering made.
  void SetItem(Dict* dict, const Value& key, const Value& value);

  std::deque<Range> ranges;
  std::deque<Loop> loops;
  std::deque<MacroObject> macros;
  std::deque<BoundMethod> methods;
  std::deque<Joiner> joiners;
  std::deque<Cycler> cyclers;

 private:
  enum class Spent : uint8_t { kNothing, kSteps, kBytes, kNesting };

  Limits limits_;
  std::tm now_;
  uint64_t steps_left_;
  uint64_t bytes_left_;
  Spent what_ = Spent::kNothing;
  std::deque<Buffer> buffers_;
  std::deque<List> lists_;
  std::deque<Dict> dicts_;
  std::deque<Scope> scopes_;
};

// Makes a list item by item.
class ListBuilder {
 public:
  explicit ListBuilder(Runtime& runtime) : runtime_(runtime) {}
  void Add(const Value& item) {
    if (runtime_.Charge(sizeof(Value))) items_.push_back(item);
  }
  std::vector<Value> Take() { return std::move(items_); }
  Value Finish(Kind kind = Kind::kList);

 private:
  Runtime& runtime_;
  std::vector<Value> items_;
};

}  // namespace thermocline::text::jinja

#endif  // THERMOCLINE_TEXT_JINJA_RUNTIME_H_
