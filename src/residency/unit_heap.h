// A heap of units that knows where each is.
#ifndef THERMOCLINE_RESIDENCY_UNIT_HEAP_H_
#define THERMOCLINE_RESIDENCY_UNIT_HEAP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "residency/policy.h"

namespace thermocline::residency {

// A unit with the key that it was given, whatever it would be given now.
template <class Key>
struct Keyed {
  Key key;
  uint32_t unit;
};

// Orders: the least key first, or the greatest; of equal ones the unit of the
// greatest number, or the least.
struct LeastFirst {
  template <class Key>
  bool operator()(const Keyed<Key>& a, const Keyed<Key>& b) const {
    return a.key < b.key || (a.key == b.key && a.unit > b.unit);
  }
};
struct GreatestFirst {
  template <class Key>
  bool operator()(const Keyed<Key>& a, const Keyed<Key>& b) const {
    return LeastFirst()(b, a);
  }
};

// Every call but FirstWhere and MapKeys is O(log size). 4 bytes a unit, and an
// entry for each in the heap.
template <class Key, class Before>
class UnitHeap {
 public:
  explicit UnitHeap(size_t num_units) : places_(num_units) {}

  bool is_empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  // Requires that there is one.
  const Keyed<Key>& first() const { return entries_.front(); }

  bool Has(uint32_t unit) const {
    const size_t place = places_[unit];
    return place < entries_.size() && entries_[place].unit == unit;
  }

  // Requires that the unit is in the heap (CHECKed).
  const Key& KeyOf(uint32_t unit) const { return entries_[PlaceOf(unit)].key; }

  // Requires that the unit is not in the heap.
  void Push(uint32_t unit, const Key& key) {
    entries_.push_back({key, unit});
    Rise(entries_.size() - 1);
  }

  // Requires that the unit is in the heap (CHECKed), as Set does.
  void Remove(uint32_t unit) {
    const size_t place = PlaceOf(unit);
    const Keyed<Key> last = entries_.back();
    entries_.pop_back();
    if (last.unit == unit) return;
    Put(place, last);
    Mend(place);
  }

  void Set(uint32_t unit, const Key& key) {
    const size_t place = PlaceOf(unit);
    entries_[place].key = key;
    Mend(place);
  }

  // Key becomes map(key) for all. Cost: O(size).
  template <class Map>
  void MapKeys(Map map) {
    for (Keyed<Key>& entry : entries_) entry.key = map(entry.key);
    for (size_t place = entries_.size() / 2; place-- > 0;) Sink(place);
  }

  // The first unit that `may` allows, or kNobody.
  // Cost: O(1) for each that comes before it and is not allowed.
  template <class May>
  uint32_t FirstWhere(May may) const {
    const Keyed<Key>* best = nullptr;
    Search(0, may, best);
    return best == nullptr ? kNobody : best->unit;
  }

 private:
  size_t PlaceOf(uint32_t unit) const {
    TC_CHECK(Has(unit));
    return places_[unit];
  }

  void Put(size_t place, const Keyed<Key>& entry) {
    entries_[place] = entry;
    places_[entry.unit] = static_cast<uint32_t>(place);
  }

  void Mend(size_t place) {
    const uint32_t unit = entries_[place].unit;
    Rise(place);
    Sink(places_[unit]);
  }

  void Rise(size_t place) {
    const Keyed<Key> entry = entries_[place];
    for (; place > 0; place = (place - 1) / 2) {
      const Keyed<Key>& parent = entries_[(place - 1) / 2];
      if (!Before()(entry, parent)) break;
      Put(place, parent);
    }
    Put(place, entry);
  }

  void Sink(size_t place) {
    const Keyed<Key> entry = entries_[place];
    for (size_t child = 2 * place + 1; child < entries_.size();
         child = 2 * place + 1) {
      if (child + 1 < entries_.size() &&
          Before()(entries_[child + 1], entries_[child])) {
        ++child;
      }
      if (!Before()(entries_[child], entry)) break;
      Put(place, entries_[child]);
      place = child;
    }
    Put(place, entry);
  }

  // The better of `best` and what is allowed at or below a place.
  template <class May>
  void Search(size_t place, May& may, const Keyed<Key>*& best) const {
    if (place >= entries_.size()) return;
    const Keyed<Key>& entry = entries_[place];
    if (best != nullptr && !Before()(entry, *best)) return;
    if (may(entry.unit)) {
      best = &entry;
      return;
    }
    Search(2 * place + 1, may, best);
    Search(2 * place + 2, may, best);
  }

  std::vector<uint32_t> places_;  // [num_units] of those in the heap
  std::vector<Keyed<Key>> entries_;
};

}  // namespace thermocline::residency

#endif  // THERMOCLINE_RESIDENCY_UNIT_HEAP_H_
