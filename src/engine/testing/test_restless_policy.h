// A policy that moves whomever it likes, for tests of those who carry moves
// out.
#ifndef THERMOCLINE_ENGINE_TESTING_TEST_RESTLESS_POLICY_H_
#define THERMOCLINE_ENGINE_TESTING_TEST_RESTLESS_POLICY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/random.h"
#include "residency/policy.h"

namespace thermocline::engine::testing {

// Draws from a seed; keeps to what Policy promises.
class RestlessPolicy final : public residency::Policy {
 public:
  RestlessPolicy(const std::vector<residency::LayerExtent>& layers,
                 uint64_t seed)
      : random_(seed) {
    for (const residency::LayerExtent& extent : layers) {
      layers_.push_back(
          {.capacity = std::min(extent.capacity, extent.num_units),
           .is_resident = Bits(extent.num_units, false),
           .is_in_use = Bits(extent.num_units, false)});
    }
  }

  std::vector<uint32_t> Initial(size_t layer_idx) override {
    Layer& layer = layers_[layer_idx];
    std::vector<uint32_t> units(layer.capacity);
    std::iota(units.begin(), units.end(), 0u);
    std::fill_n(layer.is_resident.begin(), layer.capacity, true);
    return units;
  }

  void Observe(size_t layer_idx, const neuron::NeuronSet& used) override {
    Layer& layer = layers_[layer_idx];
    for (size_t i = 0; i < layer.is_in_use.size(); ++i) {
      layer.is_in_use[i] = used.Has(i);
    }
  }

  Answer Admit(size_t layer_idx, uint32_t unit,
               const neuron::NeuronSet& /*pinned*/) override {
    if (random_.Below(2) == 0) return {};
    return Enter(layers_[layer_idx], unit);
  }

  std::vector<Move> Propose(size_t layer_idx, size_t most) override {
    Layer& layer = layers_[layer_idx];
    std::vector<Move> moves;
    for (size_t i = 0; i < most; ++i) {
      const auto unit =
          static_cast<uint32_t>(random_.Below(layer.is_resident.size()));
      if (layer.is_resident[unit]) continue;
      const Answer answer = Enter(layer, unit);
      if (answer.is_admitted) moves.push_back({unit, answer.leaves});
    }
    return moves;
  }

  void Drop(size_t layer_idx, uint32_t unit) override {
    layers_[layer_idx].is_resident[unit] = false;
    ++num_drops_;
  }

  bool IsResident(size_t layer_idx, uint32_t unit) const override {
    return layers_[layer_idx].is_resident[unit];
  }
  size_t num_resident(size_t layer_idx) const override {
    return Count(layers_[layer_idx]);
  }
  size_t num_drops() const { return num_drops_; }

 private:
  using Bits = std::vector<bool>;
  struct Layer {
    size_t capacity = 0;
    Bits is_resident, is_in_use;
  };

  static size_t Count(const Layer& layer) {
    return static_cast<size_t>(std::ranges::count(layer.is_resident, true));
  }

  // In the place of somebody who is not in use, from a drawn one on.
  Answer Enter(Layer& layer, uint32_t unit) {
    uint32_t leaves = residency::kNobody;
    if (Count(layer) == layer.capacity) {
      const size_t num_units = layer.is_resident.size();
      const size_t first = random_.Below(num_units);
      for (size_t i = 0; i < num_units && leaves == residency::kNobody; ++i) {
        const auto other = static_cast<uint32_t>((first + i) % num_units);
        if (layer.is_resident[other] && !layer.is_in_use[other]) leaves = other;
      }
      if (leaves == residency::kNobody) return {};
      layer.is_resident[leaves] = false;
    }
    layer.is_resident[unit] = true;
    layer.is_in_use[unit] = true;  // nobody takes it back at once
    return {true, leaves};
  }

  Random random_;
  std::vector<Layer> layers_;
  size_t num_drops_ = 0;
};

}  // namespace thermocline::engine::testing

#endif  // THERMOCLINE_ENGINE_TESTING_TEST_RESTLESS_POLICY_H_
