#include <utility>

#include "base/units.h"
#include "planner/cost.h"
#include "planner/hottest.h"
#include "planner/named.h"
#include "planner/parts.h"

namespace thermocline::planner {
namespace {

// PowerInfer takes attention, then predictors, then the head, each layer by
// layer.
Placement PlaceInOrder(const Problem& problem) {
  Placement placement = AllOnHost(problem);
  uint64_t bytes = 0;
  for (const PartKind kind :
       {PartKind::kAttention, PartKind::kPredictor, PartKind::kHead}) {
    for (const WholePart& part : PartsOf(problem)) {
      if (part.kind != kind || part.part->rule == Rule::kHost) continue;
      if (part.bytes() > problem.budget - bytes) continue;
      bytes += part.bytes();
      Put(part, placement);
    }
  }
  return placement;
}

}  // namespace

Result<Placement> PlaceHotNeurons(const Problem& problem,
                                  const model::HotNeurons& hot) {
  if (hot.layers.size() != problem.layers.size()) {
    return Fail(ErrorCode::kInvalidArgument, "a split of {}, for a model of {}",
                Plural(hot.layers.size(), "layer"),
                Plural(problem.layers.size(), "layer"));
  }
  std::vector<HotItem> items;
  for (size_t i = 0; i < hot.layers.size(); ++i) {
    const Neurons& neurons = problem.layers[i].neurons;
    if (neurons.count() == 0 && !hot.layers[i].empty()) {
      return Fail(ErrorCode::kInvalidArgument,
                  "a split names {} of layer {}, whose FFN is not placed by "
                  "neurons",
                  Plural(hot.layers[i].size(), "neuron"), i);
    }
    for (const uint32_t neuron : hot.layers[i]) {
      if (neuron >= neurons.count()) {
        return Fail(ErrorCode::kInvalidArgument,
                    "a split names neuron {} of layer {}, which has {}", neuron,
                    i, neurons.count());
      }
      if (neurons.rule == Rule::kHost) continue;
      items.push_back(
          {neurons.frequency[neuron], static_cast<uint32_t>(i), neuron});
    }
  }
  Placement placement = PlaceInOrder(problem);
  PlaceHottest(problem, std::move(items), placement);
  return placement;
}

}  // namespace thermocline::planner
