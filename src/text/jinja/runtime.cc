#include "text/jinja/runtime.h"

#include <algorithm>

namespace thermocline::text::jinja {
namespace {

// Texts know their size in 32 bits.
constexpr int64_t kMaxMadeBytes = int64_t{1} << 31;

uint64_t NotNegative(int64_t limit) {
  return static_cast<uint64_t>(std::max<int64_t>(limit, 0));
}

}  // namespace

Runtime::Runtime(const Limits& limits, const std::tm& now)
    : limits_(limits),
      now_(now),
      steps_left_(NotNegative(limits.num_steps)),
      bytes_left_(NotNegative(std::min(limits.num_bytes, kMaxMadeBytes))) {}

bool Runtime::Charge(size_t num_bytes) {
  if (spent()) return false;
  if (num_bytes > bytes_left_) {
    what_ = Spent::kBytes;
    return false;
  }
  bytes_left_ -= num_bytes;
  return true;
}

bool Runtime::Work(size_t num_steps) {
  if (spent()) return false;
  if (num_steps > steps_left_) {
    what_ = Spent::kSteps;
    return false;
  }
  steps_left_ -= num_steps;
  return true;
}

bool Runtime::ScanFor(size_t num_bytes, size_t size) {
  if (size > num_bytes) return Work(0);
  // Less than 2^53: texts know their size in 32 bits.
  return Work((num_bytes - size) / 64 * (1 + size / 64));
}

bool Runtime::CompareKey(const Value& key) {
  if (IsText(key)) return Scan(key.size);
  if (key.kind != Kind::kTuple) return Work(0);
  const std::vector<Value>& items = key.list->items;
  // A comparison of an item is worth some of those of bytes.
  if (!Work(4 * items.size())) return false;
  return std::all_of(items.begin(), items.end(), [this](const Value& item) {
    return !IsText(item) || Scan(item.size);
  });
}

Status Runtime::Check() const {
  switch (what_) {
    case Spent::kNothing:
      return {};
    case Spent::kSteps:
      return Fail(ErrorCode::kResourceExhausted,
                  "the template takes more than {} steps, and may never end",
                  limits_.num_steps);
    case Spent::kBytes:
      return Fail(ErrorCode::kResourceExhausted,
                  "the template makes more than {} bytes of texts and lists",
                  limits_.num_bytes);
    case Spent::kNesting:
      break;
  }
  return Fail(ErrorCode::kResourceExhausted,
              "a value is nested more than {} deep", limits_.nesting);
}

Status Runtime::TooDeep() {
  if (!spent()) what_ = Spent::kNesting;
  return Check();
}

Buffer* Runtime::NewBuffer() {
  Charge(sizeof(Buffer));
  return &buffers_.emplace_back();
}

Value Runtime::NewList(Kind kind, std::vector<Value> items) {
  Charge(sizeof(List));
  Value value{.kind = kind};
  value.list = &lists_.emplace_back(List{std::move(items)});
  return value;
}

Value Runtime::NewTuple(std::vector<Value> items) {
  Charge(items.size() * sizeof(Value));
  return NewList(Kind::kTuple, std::move(items));
}

Value Runtime::NewDict() {
  Charge(sizeof(Dict));
  Value value{.kind = Kind::kDict};
  value.dict = &dicts_.emplace_back();
  return value;
}

Scope* Runtime::NewScope(Scope* parent) {
  Charge(sizeof(Scope));
  return &scopes_.emplace_back(Scope{.parent = parent});
}

const Value* Runtime::FindItem(const Dict& dict, const Value& key) {
  return CompareKey(key) && IsHashable(key) ? dict.Find(key) : nullptr;
}

void Runtime::SetItem(Dict* dict, const Value& key, const Value& value) {
  // An entry, and its node in the index.
  if (CompareKey(key) && Charge(sizeof(Dict::Entry) + sizeof(Value) + 48))
    dict->Set(key, value);
}

Value ListBuilder::Finish(Kind kind) {
  return runtime_.NewList(kind, std::move(items_));
}

}  // namespace thermocline::text::jinja
