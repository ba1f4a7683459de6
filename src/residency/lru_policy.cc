#include "residency/layered_policy.h"
#include "residency/makers.h"
#include "residency/unit_lists.h"

namespace thermocline::residency {
namespace {

constexpr uint32_t kResidents = 0;  // the only list; last used at the front

class LruLayer {
 public:
  explicit LruLayer(const LayerExtent& extent)
      : residents_(extent), list_(extent.num_units, 1) {}

  void Begin(uint32_t unit) { Add(unit); }

  void Observe(const neuron::NeuronSet& used) {
    residents_.SetUsed(used);
    used.ForEachIn(0, used.num_neurons, [this](size_t i) {
      const auto unit = static_cast<uint32_t>(i);
      if (!residents_.Has(unit)) return;
      list_.Remove(unit);
      list_.PushFront(kResidents, unit);
    });
  }

  Policy::Answer Admit(uint32_t unit, const neuron::NeuronSet& pinned) {
    uint32_t leaves = kNobody;
    if (residents_.is_full()) {
      leaves = LastToLeave(list_, kResidents, residents_, pinned);
      if (leaves == kNobody) return {};
      Drop(leaves);
    }
    Add(unit);
    residents_.MarkUsed(unit);
    return {true, leaves};
  }

  void Drop(uint32_t unit) {
    list_.Remove(unit);
    residents_.Remove(unit);
  }
  const ResidentSet& residents() const { return residents_; }

 private:
  void Add(uint32_t unit) {
    residents_.Add(unit);
    list_.PushFront(kResidents, unit);
  }

  ResidentSet residents_;
  UnitLists list_;
};

}  // namespace

std::unique_ptr<Policy> MakeLru(const Extents& layers) {
  return std::make_unique<LayeredPolicy<LruLayer>>(layers);
}

}  // namespace thermocline::residency
