// Who is resident in a layer, and who may not leave: what all policies share.
#ifndef THERMOCLINE_RESIDENCY_RESIDENT_SET_H_
#define THERMOCLINE_RESIDENCY_RESIDENT_SET_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "neuron/neuron_set.h"
#include "residency/policy.h"

namespace thermocline::residency {

// The `capacity` best units by frequency, the best first; equal ones, and all
// without frequencies, by number.
std::vector<uint32_t> BestUnits(const LayerExtent& extent);

// Invariant: size() <= capacity(). Two bits a unit.
class ResidentSet {
 public:
  explicit ResidentSet(const LayerExtent& extent);

  size_t num_units() const { return num_units_; }
  size_t capacity() const { return capacity_; }
  size_t size() const { return size_; }
  bool is_full() const { return size_ == capacity_; }
  bool Has(uint32_t unit) const;
  // How many of these are resident.
  size_t CountOf(const neuron::NeuronSet& units) const {
    return units.CountIn(residents());
  }

  // Requires that it is not resident and that there is room (CHECKed).
  void Add(uint32_t unit);
  // Requires that it is resident (CHECKed).
  void Remove(uint32_t unit);

  // These are in use until the next call, and those of MarkUsed too.
  void SetUsed(const neuron::NeuronSet& used);
  void MarkUsed(uint32_t unit);
  bool IsUsed(uint32_t unit) const;

 private:
  neuron::NeuronSet residents() const;
  neuron::NeuronSet used() const;

  size_t num_units_;
  size_t capacity_;
  size_t size_ = 0;
  mutable std::vector<uint64_t> resident_words_;
  mutable std::vector<uint64_t> used_words_;
};

// A set without words has nobody.
inline bool IsPinned(const neuron::NeuronSet& pinned, uint32_t unit) {
  return unit < pinned.num_neurons && pinned.Has(unit);
}

}  // namespace thermocline::residency

#endif  // THERMOCLINE_RESIDENCY_RESIDENT_SET_H_
