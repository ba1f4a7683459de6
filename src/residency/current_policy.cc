#include <compare>

#include "residency/layered_policy.h"
#include "residency/makers.h"
#include "residency/scored_residents.h"

namespace thermocline::residency {
namespace {

// The last round that used a unit, and which share of it.
struct Round {
  uint32_t number = 0;
  float share = 0.0f;

  auto operator<=>(const Round&) const = default;
};

class CurrentLayer {
 public:
  explicit CurrentLayer(const LayerExtent& extent)
      : rounds_(extent.num_units), residents_(extent, &rounds_) {}

  // As if used in an earlier round each.
  void Begin(uint32_t unit) {
    rounds_[unit].number = ++round_;
    residents_.Begin(unit);
  }

  void Observe(const neuron::NeuronSet& units, const UsedMembers& used) {
    if (round_ < UINT32_MAX) ++round_;
    residents_.SetUsed(units);
    units.ForEachIn(0, units.num_neurons, [&](size_t i) {
      const auto unit = static_cast<uint32_t>(i);
      rounds_[unit] = {round_, used.ShareOf(unit)};
    });
  }

  Policy::Answer Admit(uint32_t unit, const neuron::NeuronSet& pinned) {
    uint32_t leaves = kNobody;
    if (residents_.set().is_full()) {
      leaves = residents_.Worst(pinned);
      if (leaves == kNobody || rounds_[unit] <= rounds_[leaves]) return {};
      residents_.Remove(leaves);
    }
    residents_.Add(unit);
    return {true, leaves};
  }

  void Drop(uint32_t unit) { residents_.Drop(unit); }
  float RankOf(uint32_t unit) const { return rounds_[unit].share; }
  const ResidentSet& residents() const { return residents_.set(); }

 private:
  std::vector<Round> rounds_;
  uint32_t round_ = 0;
  ScoredResidents<Round> residents_;
};

}  // namespace

std::unique_ptr<Policy> MakeCurrent(const Extents& layers) {
  return std::make_unique<LayeredPolicy<CurrentLayer>>(layers);
}

}  // namespace thermocline::residency
