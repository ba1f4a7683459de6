#include "planner/hottest.h"

#include <algorithm>
#include <tuple>

#include "planner/cost.h"

namespace thermocline::planner {

std::vector<HotItem> OpenItems(const Problem& problem) {
  std::vector<HotItem> items;
  for (size_t i = 0; i < problem.layers.size(); ++i) {
    const Layer& layer = problem.layers[i];
    const auto add = [&](float frequency, size_t item) {
      items.push_back(
          {frequency, static_cast<uint32_t>(i), static_cast<uint32_t>(item)});
    };
    if (layer.neurons.rule == Rule::kOpen) {
      for (size_t n = 0; n < layer.neurons.count(); ++n) {
        add(layer.neurons.frequency[n], n);
      }
    }
    if (layer.experts.rule == Rule::kOpen) {
      const std::vector<Expert>& experts = layer.experts.experts;
      for (size_t e = 0; e < experts.size(); ++e) add(experts[e].frequency, e);
    }
  }
  return items;
}

void PlaceHottest(const Problem& problem, std::vector<HotItem> items,
                  Placement& placement) {
  std::ranges::sort(items, [](const HotItem& a, const HotItem& b) {
    return std::tuple(-a.frequency, a.item, a.layer_idx) <
           std::tuple(-b.frequency, b.item, b.layer_idx);
  });
  uint64_t bytes = DeviceBytes(problem, placement);
  for (const HotItem& hot : items) {
    const Layer& layer = problem.layers[hot.layer_idx];
    LayerPlace& place = placement.layers[hot.layer_idx];
    const bool is_neuron = layer.experts.experts.empty();
    std::vector<uint32_t>& there = is_neuron ? place.neurons : place.experts;
    const uint64_t more = is_neuron
                              ? NeuronBytes(layer.neurons, there.size() + 1) -
                                    NeuronBytes(layer.neurons, there.size())
                              : InPieces(layer.experts.experts[hot.item].bytes);
    if (more > problem.budget - bytes) continue;
    bytes += more;
    there.push_back(hot.item);
  }
  for (LayerPlace& place : placement.layers) {
    std::ranges::sort(place.neurons);
    std::ranges::sort(place.experts);
  }
}

}  // namespace thermocline::planner
