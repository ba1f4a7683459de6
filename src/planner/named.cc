#include "planner/named.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/quote.h"
#include "base/remedy.h"
#include "base/units.h"
#include "planner/cost.h"
#include "planner/ffn_curve.h"
#include "planner/ilp.h"
#include "planner/native.h"
#include "planner/parts.h"

namespace thermocline::planner {
namespace {

constexpr std::array<MethodInfo, 9> kMethods = {{
    {Method::kNative, "native", "the least predicted time per token"},
    {Method::kIlp, "ilp", "the most activations, PowerInfer's integer program"},
    {Method::kFrequency, "frequency", "the hottest neurons of all layers"},
    {Method::kDenseLayers, "dense-layers",
     "the last layers whole, all neurons computed"},
    {Method::kSparseLayers, "sparse-layers",
     "the last layers whole, active neurons computed"},
    {Method::kAllHost, "all-host", "nothing on the device"},
    {Method::kAllDevice, "all-device", "everything on the device"},
    {Method::kStreamDense, "stream-dense",
     "the device computes all, weights cross the link"},
    {Method::kFetchActive, "fetch-active",
     "the device computes all, active neurons cross the link"},
}};

// Whether a part, or any of a layer's FFN, can be there.
bool CanBeThere(const Part& part) {
  return part.exists() && part.rule != Rule::kHost;
}

// All of a layer that can be there, its predictor only if it is asked.
void PutLayer(const Layer& layer, bool with_predictor, LayerPlace& place) {
  place.attention = CanBeThere(layer.attention);
  place.predictor = with_predictor && CanBeThere(layer.predictor);
  place.matrices = CanBeThere(layer.matrices);
  const auto fill = [](Rule rule, size_t count, std::vector<uint32_t>& items) {
    items.resize(rule == Rule::kHost ? 0 : count);
    std::iota(items.begin(), items.end(), 0u);
  };
  fill(layer.neurons.rule, layer.neurons.count(), place.neurons);
  fill(layer.experts.rule, layer.experts.experts.size(), place.experts);
}

// The last so many layers; with more than there are the head too.
Placement LastLayers(const Problem& problem, size_t count, Scheme scheme) {
  Placement placement = AllOnHost(problem);
  placement.scheme = scheme;
  const size_t num_layers = problem.layers.size();
  const bool is_sparse = scheme == Scheme::kSparse || scheme == Scheme::kFetch;
  for (size_t i = num_layers - std::min(count, num_layers); i < num_layers;
       ++i) {
    PutLayer(problem.layers[i], is_sparse, placement.layers[i]);
  }
  placement.head = count > num_layers && CanBeThere(problem.head);
  return placement;
}

tl::unexpected<Error> TooMuch(const Problem& problem, std::string_view what,
                              const Placement& placement) {
  return Fail(ErrorCode::kResourceExhausted, Advice{Remedy::kVram},
              "{} takes {} on the device, more than the {} that there are for "
              "it",
              what, FormatBytes(DeviceBytes(problem, placement)),
              FormatBytes(problem.budget));
}

bool Fits(const Problem& problem, const Placement& placement) {
  return DeviceBytes(problem, placement) <= problem.budget;
}

Result<Placement> PlaceLastLayers(const Problem& problem, Scheme scheme,
                                  std::optional<size_t> num_layers) {
  if (num_layers) {
    Placement placement = LastLayers(problem, *num_layers, scheme);
    if (Fits(problem, placement)) return placement;
    return TooMuch(
        problem,
        fmt::format("a placement of {}", Plural(*num_layers, "whole layer")),
        placement);
  }
  if (const Placement none = LastLayers(problem, 0, scheme);
      !Fits(problem, none)) {
    return TooMuch(problem, "the cache of all layers' keys and values", none);
  }
  size_t most = 0;
  size_t too_many = problem.layers.size() + 2;
  while (most + 1 < too_many) {
    const size_t middle = std::midpoint(most, too_many);
    const bool fits = Fits(problem, LastLayers(problem, middle, scheme));
    (fits ? most : too_many) = middle;
  }
  return LastLayers(problem, most, scheme);
}

Result<Placement> PlaceAll(const Problem& problem) {
  Placement placement =
      LastLayers(problem, problem.layers.size() + 1, Scheme::kSparse);
  if (Fits(problem, placement)) return placement;
  return TooMuch(problem, "everything", placement);
}

Status PlaceIlp(const Problem& problem, const MethodOptions& options,
                NamedPlacement& named) {
  TC_ASSIGN_OR_RETURN(
      IlpSolution solution,
      SolveIlp(problem, {.time_limit_seconds = options.time_limit_seconds}));
  named.placement = std::move(solution.placement);
  named.is_optimal = solution.is_optimal;
  named.least_there = LeastThere(problem);
  // What rules put there is not asked whether it pays.
  for (size_t i = 0; i < problem.layers.size(); ++i) {
    const Layer& layer = problem.layers[i];
    if (layer.neurons.rule == Rule::kDevice ||
        layer.experts.rule == Rule::kDevice) {
      named.least_there[i] = 0;
    }
  }
  return {};
}

Status PlaceNative(const Problem& problem, NamedPlacement& named) {
  TC_ASSIGN_OR_RETURN(Solution solution, SolveNative(problem));
  named.placement = std::move(solution.placement);
  named.bound_seconds = solution.bound_seconds;
  return {};
}

Result<Placement> PlaceSimply(const Problem& problem, Method method,
                              const MethodOptions& options) {
  switch (method) {
    case Method::kDenseLayers:
      return PlaceLastLayers(problem, Scheme::kDense, options.num_layers);
    case Method::kSparseLayers:
      return PlaceLastLayers(problem, Scheme::kSparse, options.num_layers);
    case Method::kAllDevice:
      return PlaceAll(problem);
    case Method::kStreamDense:
      return PlaceLastLayers(problem, Scheme::kStream, options.num_layers);
    case Method::kFetchActive:
      return PlaceLastLayers(problem, Scheme::kFetch, options.num_layers);
    case Method::kFrequency:
      return PlaceByFrequency(problem);
    default:
      return AllOnHost(problem);
  }
}

}  // namespace

std::span<const MethodInfo> Methods() { return kMethods; }

const MethodInfo& InfoOf(Method method) {
  return kMethods[static_cast<size_t>(method)];
}

Result<Method> ParseMethod(std::string_view name) {
  const auto found = std::ranges::find(kMethods, name, &MethodInfo::name);
  if (found != kMethods.end()) return found->method;
  std::vector<std::string_view> names;
  for (const MethodInfo& info : kMethods) names.push_back(info.name);
  return Fail(ErrorCode::kNotFound, "no placement is called {}; there are {}",
              Quote(name), fmt::join(names, ", "));
}

Result<NamedPlacement> PlaceByMethod(const Problem& problem, Method method,
                                     const MethodOptions& options) {
  const Stopwatch watch;
  NamedPlacement named;
  named.method = method;
  if (method == Method::kNative) {
    TC_RETURN_IF_ERROR(PlaceNative(problem, named));
  } else if (method == Method::kIlp) {
    TC_RETURN_IF_ERROR(PlaceIlp(problem, options, named));
  } else {
    TC_ASSIGN_OR_RETURN(named.placement, PlaceSimply(problem, method, options));
  }
  named.seconds = PredictCost(problem, named.placement).seconds;
  named.wall_seconds = watch.Seconds();
  return named;
}

}  // namespace thermocline::planner
