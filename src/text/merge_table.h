// The merges of a BPE vocabulary over symbols that are numbers.
#ifndef THERMOCLINE_TEXT_MERGE_TABLE_H_
#define THERMOCLINE_TEXT_MERGE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "text/pair_merger.h"

namespace thermocline::text {

// Open addressing in one array, at most half full: looking a pair up, which is
// most of what tokenizing costs, misses the cache once. Safe from any number of
// threads once no more merges are added.
class MergeTable {
 public:
  using Symbol = uint32_t;

  void Reserve(size_t num_merges);

  // Adds a merge of lower precedence than all before it. A pair that is there
  // already keeps its place. Requires fewer than 2^32 - 1 merges.
  void Add(Symbol left, Symbol right, Symbol merged);

  // Merges the symbols of one word until nothing more merges.
  void Apply(std::vector<Symbol>* symbols, PairMerger* merger) const;

 private:
  struct Slot {
    uint64_t key;  // left << 32 | right
    PairMerge merge = {PairMerger::kDead, 0};
    bool is_free() const { return merge.priority == PairMerger::kDead; }
  };

  // The slot of the key, or the free one where it would go. Requires a free
  // slot.
  size_t SlotOf(uint64_t key) const;

  std::vector<Slot> slots_;  // a power of two of them, or none
  size_t num_merges_ = 0;
};

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_MERGE_TABLE_H_
