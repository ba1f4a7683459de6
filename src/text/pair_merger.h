// The loop that SentencePiece and byte-level BPE share: of all neighbours that
// may merge, merge the best, again and again.
#ifndef THERMOCLINE_TEXT_PAIR_MERGER_H_
#define THERMOCLINE_TEXT_PAIR_MERGER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
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
  // != kDead and fewer than 2^32 - 1 of them. O(n log n).
  template <typename Find>
  void Run(std::vector<uint32_t>* values, Find&& find);

 private:
  struct Candidate {
    uint32_t priority;
    uint32_t index;  // of the left symbol
    uint32_t left, right, merged;

    bool operator<(const Candidate& other) const {  // std heaps: best is last
      if (priority != other.priority) return priority > other.priority;
      return index > other.index;
    }
  };

  std::vector<uint32_t> previous_, next_;
  std::vector<Candidate> heap_;
};

template <typename Find>
void PairMerger::Run(std::vector<uint32_t>* values, Find&& find) {
  std::vector<uint32_t>& v = *values;
  TC_CHECK(v.size() < kDead);
  const auto n = static_cast<uint32_t>(v.size());
  if (n < 2) return;
  previous_.resize(n);
  next_.resize(n);
  heap_.clear();
  for (uint32_t i = 0; i < n; ++i) {
    previous_[i] = i == 0 ? n : i - 1;
    next_[i] = i + 1;
  }
  const auto propose = [&](uint32_t left, uint32_t right) {
    const std::optional<PairMerge> merge = find(left, v[left], v[right]);
    if (!merge) return false;
    heap_.push_back({merge->priority, left, v[left], v[right], merge->value});
    return true;
  };
  for (uint32_t i = 0; i + 1 < n; ++i) propose(i, i + 1);
  std::make_heap(heap_.begin(), heap_.end());

  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end());
    const Candidate best = heap_.back();
    heap_.pop_back();
    const uint32_t left = best.index;
    // A candidate is stale when either side has merged since; a side that
    // looks the same is the same.
    if (v[left] != best.left || next_[left] == n) continue;
    const uint32_t right = next_[left];
    if (v[right] != best.right) continue;

    v[left] = best.merged;
    v[right] = kDead;
    next_[left] = next_[right];
    if (next_[left] != n) {
      previous_[next_[left]] = left;
      if (propose(left, next_[left]))
        std::push_heap(heap_.begin(), heap_.end());
    }
    if (previous_[left] != n && propose(previous_[left], left)) {
      std::push_heap(heap_.begin(), heap_.end());
    }
  }
  std::erase(v, kDead);
}

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_PAIR_MERGER_H_
