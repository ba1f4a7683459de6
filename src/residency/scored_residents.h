// The residents of a layer, and which of them has the lowest score.
#ifndef THERMOCLINE_RESIDENCY_SCORED_RESIDENTS_H_
#define THERMOCLINE_RESIDENCY_SCORED_RESIDENTS_H_

#include <cstdint>
#include <vector>

#include "neuron/neuron_set.h"
#include "residency/resident_set.h"
#include "residency/unit_heap.h"

namespace thermocline::residency {

// Scores only rise. So the heap may be behind: a key that is too low brings its
// unit to the top early, where it is mended, and most uses never cost a move.
template <class Score>
class ScoredResidents {
 public:
  // `scores` [num_units] are the caller's, who may raise them at any time.
  ScoredResidents(const LayerExtent& extent, const std::vector<Score>* scores)
      : set_(extent), scores_(*scores), heap_(extent.num_units) {}

  const ResidentSet& set() const { return set_; }

  // One that is not in use; Add: one that is.
  void Begin(uint32_t unit) {
    set_.Add(unit);
    heap_.Push(unit, scores_[unit]);
  }
  void Add(uint32_t unit) {
    set_.Add(unit);
    set_.MarkUsed(unit);
    in_use_.push_back(unit);
  }
  // Requires what Worst has found.
  void Remove(uint32_t unit) {
    heap_.Remove(unit);
    set_.Remove(unit);
  }

  // Requires that it is resident.
  void Drop(uint32_t unit) {
    if (heap_.Has(unit)) heap_.Remove(unit);
    std::erase(in_use_, unit);
    set_.Remove(unit);
  }

  void SetUsed(const neuron::NeuronSet& used) {
    set_.SetUsed(used);
    size_t num_kept = 0;
    for (const uint32_t unit : in_use_) {
      if (used.Has(unit)) {
        in_use_[num_kept++] = unit;
      } else {
        heap_.Push(unit, scores_[unit]);
      }
    }
    in_use_.resize(num_kept);
  }

  // The lowest that is neither in use nor pinned, or kNobody.
  uint32_t Worst(const neuron::NeuronSet& pinned) {
    while (!heap_.is_empty()) {
      const Keyed<Score> first = heap_.first();
      if (set_.IsUsed(first.unit)) {
        heap_.Remove(first.unit);
        in_use_.push_back(first.unit);
      } else if (!Mend(first.unit, first.key)) {
        return IsPinned(pinned, first.unit) ? WorstBehind(pinned) : first.unit;
      }
    }
    return kNobody;
  }

  // Score becomes map(score) for all, where the caller does the same to his.
  template <class Map>
  void MapScores(Map map) {
    heap_.MapKeys(map);
  }

 private:
  // Whether the key was behind.
  bool Mend(uint32_t unit, const Score& key) {
    if (key == scores_[unit]) return false;
    heap_.Set(unit, scores_[unit]);
    return true;
  }

  // The same where somebody pinned is the first.
  uint32_t WorstBehind(const neuron::NeuronSet& pinned) {
    for (;;) {
      const uint32_t unit = heap_.FirstWhere([&](uint32_t other) {
        return !set_.IsUsed(other) && !IsPinned(pinned, other);
      });
      if (unit == kNobody || !Mend(unit, heap_.KeyOf(unit))) return unit;
    }
  }

  ResidentSet set_;
  const std::vector<Score>& scores_;
  UnitHeap<Score, LeastFirst> heap_;
  std::vector<uint32_t> in_use_;  // residents that are not in the heap
};

}  // namespace thermocline::residency

#endif  // THERMOCLINE_RESIDENCY_SCORED_RESIDENTS_H_
