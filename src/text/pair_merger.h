// The loop that SentencePiece and byte-level BPE share: of all neighbours that
// may merge, merge the best, again and again.
#ifndef THERMOCLINE_TEXT_PAIR_MERGER_H_
#define THERMOCLINE_TEXT_PAIR_MERGER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "base/check.h"

namespace thermocline::text {

struct PairMerge {
  uint32_t priority;  // lower merges first; among equals, the leftmost
  uint32_t value;     // of the merged symbol
};

// Owns     scratch memory, so that one object serves many words of a text.
// Threads  one at a time.
class PairMerger {
 public:
  static constexpr uint32_t kDead = std::numeric_limits<uint32_t>::max();

  // Replaces `values` by what is left when no two neighbours merge any more.
  // find(i, left, right) gives the merge of the symbol that starts at the i-th
  // of the original values, now worth `left`, with its neighbour worth `right`,
  // as std::optional<PairMerge>; it depends on nothing else. Requires values
  // and priorities != kDead and fewer than 2^32 - 1 values. O(n log n).
  template <typename Find>
  void Run(std::vector<uint32_t>* values, Find&& find);

 private:
  // A candidate is a key, priority << 32 | index of the left symbol, so the
  // least is the best. It is stale once that symbol has another merge or none.
  using Key = uint64_t;

  struct Symbol {
    uint32_t previous, next;
    PairMerge merge;  // with the next one; priority kDead: there is none
  };

  bool IsStale(Key key) const {
    return symbols_[static_cast<uint32_t>(key)].merge.priority != key >> 32;
  }

  // Takes the best candidate; nullopt: there is none. It may be stale.
  std::optional<Key> PopBest();
  // Sorts what is in the heap, which becomes empty.
  void SortHeap();

  std::vector<Symbol> symbols_;
  // Most candidates are there before the first merge, and in a text that
  // repeats itself all merges of one priority are followed by all of the next.
  // Sorted at once, they cost less than one by one through a heap, which has
  // only those that came since.
  std::vector<Key> sorted_;
  size_t num_taken_ = 0;  // of the sorted ones
  std::vector<Key> heap_;
};

inline void PairMerger::SortHeap() {
  std::erase_if(heap_, [this](Key key) { return IsStale(key); });
  if (!std::ranges::is_sorted(heap_)) std::ranges::sort(heap_);
  sorted_.swap(heap_);
  heap_.clear();
  num_taken_ = 0;
}

inline std::optional<PairMerger::Key> PairMerger::PopBest() {
  if (num_taken_ == sorted_.size()) {
    SortHeap();
    if (sorted_.empty()) return std::nullopt;
  }
  if (heap_.empty() || sorted_[num_taken_] < heap_.front()) {
    return sorted_[num_taken_++];
  }
  std::ranges::pop_heap(heap_, std::greater<>());
  const Key best = heap_.back();
  heap_.pop_back();
  return best;
}

template <typename Find>
void PairMerger::Run(std::vector<uint32_t>* values, Find&& find) {
  std::vector<uint32_t>& v = *values;
  TC_CHECK(v.size() < kDead);
  const auto n = static_cast<uint32_t>(v.size());
  if (n < 2) return;
  symbols_.resize(n);
  const auto propose = [&](uint32_t left, uint32_t right) {
    const std::optional<PairMerge> merge = find(left, v[left], v[right]);
    symbols_[left].merge = merge.value_or(PairMerge{kDead, 0});
    if (merge) heap_.push_back(Key{merge->priority} << 32 | left);
    return merge.has_value();
  };
  for (uint32_t i = 0; i < n; ++i) {
    symbols_[i] = {i == 0 ? n : i - 1, i + 1, {kDead, 0}};
    if (i + 1 < n) propose(i, i + 1);
  }
  SortHeap();

  while (const std::optional<Key> best = PopBest()) {
    if (IsStale(*best)) continue;
    const auto left = static_cast<uint32_t>(*best);
    Symbol& merged = symbols_[left];
    const uint32_t right = merged.next;
    v[left] = merged.merge.value;
    v[right] = kDead;
    merged.merge.priority = symbols_[right].merge.priority = kDead;
    merged.next = symbols_[right].next;
    if (merged.next != n) {
      symbols_[merged.next].previous = left;
      if (propose(left, merged.next)) {
        std::ranges::push_heap(heap_, std::greater<>());
      }
    }
    if (merged.previous != n && propose(merged.previous, left)) {
      std::ranges::push_heap(heap_, std::greater<>());
    }
  }
  std::erase(v, kDead);
}

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_PAIR_MERGER_H_
