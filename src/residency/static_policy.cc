#include "residency/layered_policy.h"
#include "residency/makers.h"

namespace thermocline::residency {
namespace {

// Who comes first stays: what is read later is used and forgotten.
class StaticLayer {
 public:
  explicit StaticLayer(const LayerExtent& extent) : residents_(extent) {}

  void Begin(uint32_t unit) { residents_.Add(unit); }
  void Observe(const neuron::NeuronSet& /*used*/) {}
  Policy::Answer Admit(uint32_t /*unit*/, const neuron::NeuronSet& /*pinned*/) {
    return {};
  }
  void Drop(uint32_t unit) { residents_.Remove(unit); }
  const ResidentSet& residents() const { return residents_; }

 private:
  ResidentSet residents_;
};

}  // namespace

std::unique_ptr<Policy> MakeStatic(const Extents& layers) {
  return std::make_unique<LayeredPolicy<StaticLayer>>(layers);
}

}  // namespace thermocline::residency
