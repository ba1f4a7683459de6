#include "planner/parts.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/remedy.h"
#include "base/units.h"
#include "planner/cost.h"

namespace thermocline::planner {
namespace {

double PartWorth(const Part& part) {
  const double bytes = static_cast<double>(InPieces(part.bytes));
  return part.host_read / std::max(bytes, 1.0);
}

std::vector<uint32_t> AllOf(size_t count) {
  std::vector<uint32_t> all(count);
  std::iota(all.begin(), all.end(), 0u);
  return all;
}

}  // namespace

std::vector<WholePart> PartsOf(const Problem& problem) {
  std::vector<WholePart> parts;
  const auto add = [&](const Part& part, PartKind kind, size_t layer_idx) {
    if (!part.exists()) return;
    parts.push_back({&part, kind, static_cast<uint32_t>(layer_idx)});
  };
  add(problem.head, PartKind::kHead, 0);
  for (size_t i = 0; i < problem.layers.size(); ++i) {
    const Layer& layer = problem.layers[i];
    add(layer.attention, PartKind::kAttention, i);
    add(layer.predictor, PartKind::kPredictor, i);
    add(layer.matrices, PartKind::kMatrices, i);
  }
  return parts;
}

void Put(const WholePart& part, Placement& placement) {
  switch (part.kind) {
    case PartKind::kHead:
      placement.head = true;
      break;
    case PartKind::kPredictor:
      placement.layers[part.layer_idx].predictor = true;
      break;
    case PartKind::kMatrices:
      placement.layers[part.layer_idx].matrices = true;
      break;
    case PartKind::kAttention:
      placement.layers[part.layer_idx].attention = true;
      break;
  }
}

Result<Placement> PlaceDemanded(const Problem& problem) {
  Placement placement = AllOnHost(problem);
  for (const WholePart& part : PartsOf(problem)) {
    if (part.part->rule == Rule::kDevice) Put(part, placement);
  }
  for (size_t i = 0; i < problem.layers.size(); ++i) {
    const Layer& layer = problem.layers[i];
    LayerPlace& place = placement.layers[i];
    if (layer.neurons.rule == Rule::kDevice) {
      place.neurons = AllOf(layer.neurons.count());
    }
    if (layer.experts.rule == Rule::kDevice) {
      place.experts = AllOf(layer.experts.experts.size());
    }
  }
  const uint64_t bytes = DeviceBytes(problem, placement);
  if (bytes <= problem.budget) return placement;
  return Fail(ErrorCode::kResourceExhausted, Advice{Remedy::kVram},
              "what is to be on the device takes {}, more than the {} that "
              "there are for it",
              FormatBytes(bytes), FormatBytes(problem.budget));
}

std::vector<WholePart> OpenPartsByWorth(const Problem& problem) {
  std::vector<WholePart> parts = PartsOf(problem);
  std::erase_if(parts, [](const WholePart& part) {
    return part.part->rule != Rule::kOpen;
  });
  std::ranges::sort(parts, [](const WholePart& a, const WholePart& b) {
    const double worth = PartWorth(*a.part), other = PartWorth(*b.part);
    if (worth != other) return worth > other;
    if (a.kind != b.kind) return a.kind < b.kind;
    return a.layer_idx > b.layer_idx;
  });
  return parts;
}

}  // namespace thermocline::planner
