// Doubly linked lists of units in two arrays: a unit is in one list at most.
#ifndef THERMOCLINE_RESIDENCY_UNIT_LISTS_H_
#define THERMOCLINE_RESIDENCY_UNIT_LISTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "residency/resident_set.h"

namespace thermocline::residency {

// Every call is O(1). 8 bytes a unit. Each list is a ring through a head of its
// own, number num_units + list.
class UnitLists {
 public:
  UnitLists(size_t num_units, size_t num_lists)
      : num_units_(static_cast<uint32_t>(num_units)),
        next_(num_units + num_lists),
        previous_(num_units + num_lists) {
    for (uint32_t head = num_units_; head < next_.size(); ++head) {
      next_[head] = previous_[head] = head;
    }
  }

  // Requires that the unit is in no list.
  void PushFront(uint32_t list, uint32_t unit) {
    const uint32_t head = num_units_ + list;
    next_[unit] = next_[head];
    previous_[unit] = head;
    previous_[next_[head]] = unit;
    next_[head] = unit;
  }

  // Requires that the unit is in a list.
  void Remove(uint32_t unit) {
    next_[previous_[unit]] = next_[unit];
    previous_[next_[unit]] = previous_[unit];
  }

  // kNobody: the list is empty.
  uint32_t Back(uint32_t list) const {
    return UnitOrNobody(previous_[num_units_ + list]);
  }
  // The one in front of a unit that is in a list; kNobody: it is the first.
  uint32_t InFrontOf(uint32_t unit) const {
    return UnitOrNobody(previous_[unit]);
  }

 private:
  uint32_t UnitOrNobody(uint32_t place) const {
    return place < num_units_ ? place : kNobody;
  }

  uint32_t num_units_;
  std::vector<uint32_t> next_;
  std::vector<uint32_t> previous_;
};

// Of a list whose used units are all in front of the others, as where uses move
// to the front: the last that may leave, or kNobody.
inline uint32_t LastToLeave(const UnitLists& lists, uint32_t list,
                            const ResidentSet& residents,
                            const neuron::NeuronSet& pinned) {
  uint32_t unit = lists.Back(list);
  while (unit != kNobody && !residents.IsUsed(unit)) {
    if (!IsPinned(pinned, unit)) return unit;
    unit = lists.InFrontOf(unit);
  }
  return kNobody;
}

}  // namespace thermocline::residency

#endif  // THERMOCLINE_RESIDENCY_UNIT_LISTS_H_
