// The merges of a byte-level BPE vocabulary over symbols that are numbers.
#ifndef THERMOCLINE_TEXT_MERGE_TABLE_H_
#define THERMOCLINE_TEXT_MERGE_TABLE_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/keyed_hash.h"
#include "text/pair_merger.h"

namespace thermocline::text {

// Safe from any number of threads once no more merges are added.
class MergeTable {
 public:
  using Symbol = uint32_t;

  void Reserve(size_t num_merges) { merges_.reserve(num_merges); }

  // Adds a merge of lower precedence than all before it. A pair that is there
  // already keeps its place. Requires fewer than 2^32 - 1 merges.
  void Add(Symbol left, Symbol right, Symbol merged);

  // Merges the symbols of one word until nothing more merges.
  void Apply(std::vector<Symbol>* symbols, PairMerger* merger) const;

 private:
  // By left << 32 | right.
  std::unordered_map<uint64_t, PairMerge, KeyedHash> merges_;
};

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_MERGE_TABLE_H_
