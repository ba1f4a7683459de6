#include <compare>

#include "residency/layered_policy.h"
#include "residency/makers.h"
#include "residency/scored_residents.h"

namespace thermocline::residency {
namespace {

// How often a unit was used, and in which pass last.
struct Use {
  uint32_t count = 0;
  uint32_t last_pass = 0;

  auto operator<=>(const Use&) const = default;
};

class LfuLayer {
 public:
  explicit LfuLayer(const LayerExtent& extent)
      : uses_(extent.num_units), residents_(extent, &uses_) {}

  // As if used in an earlier pass each.
  void Begin(uint32_t unit) {
    uses_[unit].last_pass = ++pass_;
    residents_.Begin(unit);
  }

  void Observe(const neuron::NeuronSet& used) {
    if (pass_ < UINT32_MAX) ++pass_;
    residents_.SetUsed(used);
    used.ForEachIn(0, used.num_neurons, [this](size_t unit) {
      Use& use = uses_[unit];
      if (use.count < UINT32_MAX) ++use.count;
      use.last_pass = pass_;
    });
  }

  Policy::Answer Admit(uint32_t unit, const neuron::NeuronSet& pinned) {
    uint32_t leaves = kNobody;
    if (residents_.set().is_full()) {
      leaves = residents_.Worst(pinned);
      if (leaves == kNobody) return {};
      residents_.Remove(leaves);
    }
    residents_.Add(unit);
    return {true, leaves};
  }

  void Drop(uint32_t unit) { residents_.Drop(unit); }
  const Use& RankOf(uint32_t unit) const { return uses_[unit]; }
  const ResidentSet& residents() const { return residents_.set(); }

 private:
  std::vector<Use> uses_;
  uint32_t pass_ = 0;
  ScoredResidents<Use> residents_;
};

}  // namespace

std::unique_ptr<Policy> MakeLfu(const Extents& layers) {
  return std::make_unique<LayeredPolicy<LfuLayer>>(layers);
}

}  // namespace thermocline::residency
