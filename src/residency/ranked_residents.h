// The residents of a layer where the scores of all units change in each pass.
#ifndef THERMOCLINE_RESIDENCY_RANKED_RESIDENTS_H_
#define THERMOCLINE_RESIDENCY_RANKED_RESIDENTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "neuron/neuron_set.h"
#include "residency/resident_set.h"
#include "residency/unit_heap.h"

namespace thermocline::residency {

// Keeps whose score is greatest: somebody comes only where the worst of those
// who may leave is worse. Equal ones do not change places.
//
// Who may leave is ranked once in a pass, when it is asked for: who comes later
// is in use and may not, and scores stay until the next pass.
class RankedResidents {
 public:
  explicit RankedResidents(const LayerExtent& extent)
      : set_(extent), scores_(extent.num_units, 0.0f) {}

  const ResidentSet& set() const { return set_; }

  void Begin(uint32_t unit) {
    set_.Add(unit);
    is_ranked_ = false;
  }
  void Drop(uint32_t unit) { set_.Remove(unit); }

  // A new pass: these are in use. The scores [num_units] may be changed until
  // the next call of another function. Cost: a word for 64.
  std::vector<float>& NewPass(const neuron::NeuronSet& used) {
    set_.SetUsed(used);
    is_ranked_ = false;
    return scores_;
  }
  float ScoreOf(uint32_t unit) const { return scores_[unit]; }

  // Requires one that is not resident. Cost: O(num_units) for the first of a
  // pass, O(log) for others, and as much for each pinned one in front.
  Policy::Answer Admit(uint32_t unit, const neuron::NeuronSet& pinned) {
    uint32_t leaves = kNobody;
    if (set_.is_full()) {
      leaves = Worst(pinned);
      if (leaves == kNobody || scores_[unit] <= scores_[leaves]) return {};
      set_.Remove(leaves);
    }
    set_.Add(unit);
    set_.MarkUsed(unit);
    return {true, leaves};
  }

  // The best of those above `floor` who are not resident, as long as they are
  // let in. Cost: O(num_units), and O(log) a move.
  std::vector<Policy::Move> Propose(size_t most, float floor) {
    std::vector<Keyed<float>> others;
    for (uint32_t unit = 0; unit < scores_.size(); ++unit) {
      if (scores_[unit] > floor && !set_.Has(unit)) {
        others.push_back({scores_[unit], unit});
      }
    }
    const auto is_worse = [](const Keyed<float>& a, const Keyed<float>& b) {
      return GreatestFirst()(b, a);
    };
    std::ranges::make_heap(others, is_worse);
    std::vector<Policy::Move> moves;
    while (moves.size() < most && !others.empty()) {
      std::ranges::pop_heap(others, is_worse);
      const uint32_t unit = others.back().unit;
      others.pop_back();
      const Policy::Answer answer = Admit(unit, {});
      if (!answer.is_admitted) break;  // nor would those behind it be
      moves.push_back({unit, answer.leaves});
    }
    return moves;
  }

 private:
  static bool IsBetter(const Keyed<float>& a, const Keyed<float>& b) {
    return LeastFirst()(b, a);
  }

  void Rank() {
    leavers_.clear();
    for (uint32_t unit = 0; unit < scores_.size(); ++unit) {
      if (set_.Has(unit) && !set_.IsUsed(unit)) {
        leavers_.push_back({scores_[unit], unit});
      }
    }
    std::ranges::make_heap(leavers_, IsBetter);
    is_ranked_ = true;
  }

  // The worst that is neither in use nor pinned, or kNobody.
  uint32_t Worst(const neuron::NeuronSet& pinned) {
    if (!is_ranked_) Rank();
    std::vector<Keyed<float>> aside;
    uint32_t worst = kNobody;
    while (worst == kNobody && !leavers_.empty()) {
      const Keyed<float> first = leavers_.front();
      const bool may = set_.Has(first.unit) && !set_.IsUsed(first.unit);
      if (may && !IsPinned(pinned, first.unit)) {
        worst = first.unit;
        continue;
      }
      std::ranges::pop_heap(leavers_, IsBetter);
      leavers_.pop_back();
      if (may) aside.push_back(first);
    }
    for (const Keyed<float>& pinned_one : aside) {
      leavers_.push_back(pinned_one);
      std::ranges::push_heap(leavers_, IsBetter);
    }
    return worst;
  }

  ResidentSet set_;
  std::vector<float> scores_;
  std::vector<Keyed<float>> leavers_;  // a heap, the worst first
  bool is_ranked_ = false;
};

}  // namespace thermocline::residency

#endif  // THERMOCLINE_RESIDENCY_RANKED_RESIDENTS_H_
