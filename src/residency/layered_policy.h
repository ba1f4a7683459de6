// A policy from what it does in one layer.
#ifndef THERMOCLINE_RESIDENCY_LAYERED_POLICY_H_
#define THERMOCLINE_RESIDENCY_LAYERED_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "base/check.h"
#include "neuron/neuron_set.h"
#include "residency/policy.h"
#include "residency/resident_set.h"

namespace thermocline::residency {

// Layer  has the functions of Policy without `layer_idx`, and residents(). It
//        may count on what Policy requires: it is checked here.
template <class Layer>
class LayeredPolicy final : public Policy {
 public:
  // `settings` are every layer's, behind its extent.
  template <class... Settings>
  explicit LayeredPolicy(const std::vector<LayerExtent>& extents,
                         const Settings&... settings)
      : initial_(extents.size()), has_begun_(extents.size(), false) {
    for (size_t l = 0; l < extents.size(); ++l) {
      layers_.emplace_back(extents[l], settings...);
      initial_[l] = BestUnits(extents[l]);
    }
  }

  std::vector<uint32_t> Initial(size_t layer_idx) override {
    Layer& layer = At(layer_idx);
    TC_CHECK(!has_begun_[layer_idx]);
    has_begun_[layer_idx] = true;
    std::vector<uint32_t> units = std::move(initial_[layer_idx]);
    // The worst first, so that it is the oldest too.
    for (size_t i = units.size(); i-- > 0;) layer.Begin(units[i]);
    return units;
  }

  void Observe(size_t layer_idx, const neuron::NeuronSet& used) override {
    Layer& layer = At(layer_idx);
    TC_CHECK(used.num_neurons == layer.residents().num_units());
    has_begun_[layer_idx] = true;
    layer.Observe(used);
  }

  Answer Admit(size_t layer_idx, uint32_t unit,
               const neuron::NeuronSet& pinned) override {
    Layer& layer = At(layer_idx);
    const ResidentSet& residents = layer.residents();
    TC_CHECK(unit < residents.num_units() && !residents.Has(unit));
    TC_CHECK(pinned.num_neurons == 0 ||
             pinned.num_neurons == residents.num_units());
    has_begun_[layer_idx] = true;
    return residents.capacity() == 0 ? Answer{} : layer.Admit(unit, pinned);
  }

  std::vector<Move> Propose(size_t layer_idx, size_t most) override {
    Layer& layer = At(layer_idx);
    has_begun_[layer_idx] = true;
    return layer.Propose(most);
  }

  bool IsResident(size_t layer_idx, uint32_t unit) const override {
    const ResidentSet& residents = At(layer_idx).residents();
    TC_CHECK(unit < residents.num_units());
    return residents.Has(unit);
  }

  size_t num_resident(size_t layer_idx) const override {
    return At(layer_idx).residents().size();
  }

 private:
  Layer& At(size_t layer_idx) {
    TC_CHECK(layer_idx < layers_.size());
    return layers_[layer_idx];
  }
  const Layer& At(size_t layer_idx) const {
    TC_CHECK(layer_idx < layers_.size());
    return layers_[layer_idx];
  }

  std::deque<Layer> layers_;  // not moved: they may point into themselves
  std::vector<std::vector<uint32_t>> initial_;  // [L] until it is asked for
  std::vector<bool> has_begun_;                 // [L]
};

}  // namespace thermocline::residency

#endif  // THERMOCLINE_RESIDENCY_LAYERED_POLICY_H_
