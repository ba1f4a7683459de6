#include "text/merge_table.h"

#include <bit>
#include <utility>

#include "base/check.h"
#include "base/keyed_hash.h"

namespace thermocline::text {
namespace {

uint64_t Key(MergeTable::Symbol left, MergeTable::Symbol right) {
  return uint64_t{left} << 32 | right;
}

}  // namespace

size_t MergeTable::SlotOf(uint64_t key) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = KeyedHash()(key) & mask;
  while (!slots_[slot].is_free() && slots_[slot].key != key) {
    slot = (slot + 1) & mask;
  }
  return slot;
}

void MergeTable::Reserve(size_t num_merges) {
  const size_t num_slots = std::bit_ceil(2 * num_merges + 2);
  if (num_slots <= slots_.size()) return;
  const std::vector<Slot> old =
      std::exchange(slots_, std::vector<Slot>(num_slots));
  for (const Slot& slot : old) {
    if (!slot.is_free()) slots_[SlotOf(slot.key)] = slot;
  }
}

void MergeTable::Add(Symbol left, Symbol right, Symbol merged) {
  TC_CHECK(num_merges_ < PairMerger::kDead);
  Reserve(num_merges_ + 1);
  Slot& slot = slots_[SlotOf(Key(left, right))];
  if (!slot.is_free()) return;
  slot = {Key(left, right), {static_cast<uint32_t>(num_merges_++), merged}};
}

void MergeTable::Apply(std::vector<Symbol>* symbols, PairMerger* merger) const {
  if (slots_.empty()) return;
  merger->Run(
      symbols,
      [this](uint32_t, Symbol left, Symbol right) -> std::optional<PairMerge> {
        const Slot& slot = slots_[SlotOf(Key(left, right))];
        if (slot.is_free()) return std::nullopt;
        return slot.merge;
      });
}

}  // namespace thermocline::text
