#include "residency/layered_policy.h"
#include "residency/makers.h"
#include "residency/scored_residents.h"

namespace thermocline::residency {
namespace {

class EagerLayer {
 public:
  explicit EagerLayer(const LayerExtent& extent)
      : arrivals_(extent.num_units, 0), residents_(extent, &arrivals_) {}

  void Begin(uint32_t unit) {
    arrivals_[unit] = ++num_arrivals_;
    residents_.Begin(unit);
  }

  void Observe(const neuron::NeuronSet& used) { residents_.SetUsed(used); }

  Policy::Answer Admit(uint32_t unit, const neuron::NeuronSet& pinned) {
    uint32_t leaves = kNobody;
    if (residents_.set().is_full()) {
      leaves = residents_.Worst(pinned);
      if (leaves == kNobody) return {};
      residents_.Remove(leaves);
    }
    arrivals_[unit] = ++num_arrivals_;
    residents_.Add(unit);
    return {true, leaves};
  }

  void Drop(uint32_t unit) { residents_.Drop(unit); }
  const ResidentSet& residents() const { return residents_.set(); }

 private:
  std::vector<uint64_t> arrivals_;  // of each unit, its last one's number
  uint64_t num_arrivals_ = 0;
  ScoredResidents<uint64_t> residents_;
};

}  // namespace

std::unique_ptr<Policy> MakeEager(const Extents& layers) {
  return std::make_unique<LayeredPolicy<EagerLayer>>(layers);
}

}  // namespace thermocline::residency
