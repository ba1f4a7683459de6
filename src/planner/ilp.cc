#include "planner/ilp.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/clock.h"
#include "planner/cost.h"
#include "planner/ffn_curve.h"
#include "planner/hottest.h"
#include "planner/ilp_solver.h"
#include "planner/parts.h"

namespace thermocline::planner {
namespace {

double RecordSeconds(double bytes, double rate) { return bytes / rate; }

// Inequality 4: C x device + T_sync <= C x host, of whole records.
uint32_t LeastOf(const Hardware& hardware, double host_bytes,
                 double device_bytes, size_t count) {
  if (count == 0) return 0;
  const double saved = RecordSeconds(host_bytes, hardware.host_rate) -
                       RecordSeconds(device_bytes, hardware.device_rate);
  if (saved <= 0.0) return kNever;
  const double least = std::max(1.0, std::ceil(hardware.sync_seconds / saved));
  return least > static_cast<double>(count) ? kNever
                                            : static_cast<uint32_t>(least);
}

uint32_t LeastOf(const Hardware& hardware, const Layer& layer) {
  const std::vector<Expert>& experts = layer.experts.experts;
  if (experts.empty()) {
    const Neurons& neurons = layer.neurons;
    return LeastOf(hardware, neurons.host.tested + neurons.host.rest,
                   neurons.device.tested + neurons.device.rest,
                   neurons.count());
  }
  double host = 0.0, device = 0.0;
  for (const Expert& expert : experts) {
    host += expert.host_read;
    device += expert.device_read;
  }
  const auto count = static_cast<double>(experts.size());
  return LeastOf(hardware, host / count, device / count, experts.size());
}

// Parts by worth into what the rules leave.
Result<Placement> PlaceParts(const Problem& problem) {
  TC_ASSIGN_OR_RETURN(Placement placement, PlaceDemanded(problem));
  uint64_t bytes = DeviceBytes(problem, placement);
  for (const WholePart& part : OpenPartsByWorth(problem)) {
    if (part.bytes() > problem.budget - bytes) continue;
    bytes += part.bytes();
    Put(part, placement);
  }
  return placement;
}

bool IsOpen(const Layer& layer) {
  return layer.experts.experts.empty() ? layer.neurons.rule == Rule::kOpen
                                       : layer.experts.rule == Rule::kOpen;
}

// The neurons of one open layer in groups, or its experts.
IlpLayer GroupsOf(const Layer& layer, size_t group_size, uint32_t least) {
  IlpLayer groups;
  groups.least = least;
  const std::vector<uint32_t> order = RankItems(layer);
  const std::vector<Expert>& experts = layer.experts.experts;
  if (!experts.empty()) {
    for (const uint32_t expert : order) {
      groups.groups.push_back(
          {.items = {expert},
           .impact = static_cast<double>(experts[expert].frequency),
           .bytes = static_cast<double>(InPieces(experts[expert].bytes))});
    }
    return groups;
  }
  const Neurons& neurons = layer.neurons;
  for (size_t i = 0; i < order.size(); i += group_size) {
    const size_t end = std::min(order.size(), i + group_size);
    IlpGroup& group = groups.groups.emplace_back();
    group.items.assign(order.begin() + static_cast<ptrdiff_t>(i),
                       order.begin() + static_cast<ptrdiff_t>(end));
    for (const uint32_t neuron : group.items) {
      group.impact += static_cast<double>(neurons.frequency[neuron]);
    }
    group.bytes = static_cast<double>((end - i) * neurons.record_bytes);
  }
  // What rounding up to pieces can add stays free; nothing where nothing can.
  const bool is_even = neurons.record_bytes % kPieceBytes == 0 &&
                       neurons.other_bytes % kPieceBytes == 0;
  groups.bytes = static_cast<double>(neurons.other_bytes) +
                 (is_even ? 0.0 : static_cast<double>(kPieceBytes - 1));
  return groups;
}

IlpModel ModelOf(const Problem& problem, const IlpOptions& options,
                 uint64_t left) {
  const std::vector<uint32_t> least = LeastThere(problem);
  IlpModel model;
  model.capacity = static_cast<double>(left);
  for (size_t i = 0; i < problem.layers.size(); ++i) {
    const Layer& layer = problem.layers[i];
    model.layers.push_back(
        !IsOpen(layer) || least[i] == kNever
            ? IlpLayer{}
            : GroupsOf(layer, std::max<size_t>(options.group_size, 1),
                       least[i]));
  }
  return model;
}

void PutGroups(const IlpModel& model, const IlpAnswer& answer,
               const Problem& problem, Placement& placement) {
  for (size_t i = 0; i < model.layers.size(); ++i) {
    LayerPlace& place = placement.layers[i];
    std::vector<uint32_t>& items = problem.layers[i].experts.experts.empty()
                                       ? place.neurons
                                       : place.experts;
    for (size_t g = 0; g < model.layers[i].groups.size(); ++g) {
      if (!answer.is_there[i][g]) continue;
      const std::vector<uint32_t>& group = model.layers[i].groups[g].items;
      items.insert(items.end(), group.begin(), group.end());
    }
    std::ranges::sort(items);
  }
}

}  // namespace

std::vector<uint32_t> LeastThere(const Problem& problem) {
  std::vector<uint32_t> least;
  for (const Layer& layer : problem.layers) {
    least.push_back(LeastOf(problem.hardware, layer));
  }
  return least;
}

bool HasIlp() { return HasIlpSolver(); }

Result<IlpSolution> SolveIlp(const Problem& problem,
                             const IlpOptions& options) {
  const Stopwatch watch;
  IlpSolution solution;
  TC_ASSIGN_OR_RETURN(solution.placement, PlaceParts(problem));
  const uint64_t left =
      problem.budget - DeviceBytes(problem, solution.placement);
  const IlpModel model = ModelOf(problem, options, left);
  TC_ASSIGN_OR_RETURN(
      const IlpAnswer answer,
      SolveIlpModel(model, options.time_limit_seconds, options.max_gap));
  PutGroups(model, answer, problem, solution.placement);
  solution.impact = answer.impact;
  solution.impact_bound = answer.bound;
  solution.is_optimal = answer.is_optimal;
  solution.wall_seconds = watch.Seconds();
  return solution;
}

Result<Placement> PlaceByFrequency(const Problem& problem) {
  TC_ASSIGN_OR_RETURN(Placement placement, PlaceParts(problem));
  PlaceHottest(problem, OpenItems(problem), placement);
  return placement;
}

}  // namespace thermocline::planner
