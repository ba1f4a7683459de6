// Which units the members of a layer make: one place for policies, replays and
// bounds.
#ifndef THERMOCLINE_RESIDENCY_UNIT_MEMBERS_H_
#define THERMOCLINE_RESIDENCY_UNIT_MEMBERS_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "neuron/neuron_set.h"
#include "residency/policy.h"

namespace thermocline::residency {

// Invariant: each unit has at least one member. A bit a unit, where units have
// several members.
class UnitMembers {
 public:
  // Requires an extent that MakePolicy takes.
  explicit UnitMembers(const LayerExtent& extent)
      : num_units_(extent.num_units),
        num_members_(extent.members()),
        per_unit_(extent.members_per_unit),
        words_(per_unit_ == 1 ? 0 : neuron::WordsOf(num_units_), 0) {}

  size_t num_units() const { return num_units_; }
  size_t num_members() const { return num_members_; }
  uint32_t UnitOf(uint32_t member) const { return member / per_unit_; }

  uint32_t SizeOf(uint32_t unit) const {
    return static_cast<uint32_t>(EndOf(unit) - BeginOf(unit));
  }

  // The units that have a member in `members`, until the next call. Of one
  // member each they are `members` itself.
  neuron::NeuronSet UnitsOf(const neuron::NeuronSet& members) {
    if (per_unit_ == 1) return members;
    const neuron::NeuronSet units = {words_.data(), num_units_};
    units.Clear();
    members.ForEachIn(0, num_members_,
                      [&](size_t member) { units.Add(member / per_unit_); });
    return units;
  }

  // How many of the unit's members are in `members`. Cost: a word for 64.
  uint32_t CountIn(uint32_t unit, const neuron::NeuronSet& members) const {
    size_t count = 0;
    const size_t end = EndOf(unit);
    for (size_t i = BeginOf(unit); i < end;) {
      const size_t next = std::min(end, (i / 64 + 1) * 64);
      const uint64_t mask = ~uint64_t{0} >> (64 - (next - i));
      count += static_cast<size_t>(
          std::popcount(members.words[i / 64] >> i % 64 & mask));
      i = next;
    }
    return static_cast<uint32_t>(count);
  }

  // A of KAIROX's Algorithm 1, "map and normalise": which share of the unit's
  // members is in `members`.
  float ShareIn(uint32_t unit, const neuron::NeuronSet& members) const {
    return static_cast<float>(CountIn(unit, members)) /
           static_cast<float>(SizeOf(unit));
  }

 private:
  size_t BeginOf(uint32_t unit) const { return size_t{unit} * per_unit_; }
  size_t EndOf(uint32_t unit) const {
    return std::min(num_members_, BeginOf(unit) + per_unit_);
  }

  size_t num_units_;
  size_t num_members_;
  uint32_t per_unit_;
  std::vector<uint64_t> words_;
};

}  // namespace thermocline::residency

#endif  // THERMOCLINE_RESIDENCY_UNIT_MEMBERS_H_
