#include "residency/compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>

#include "base/units.h"
#include "residency/bounds.h"

namespace thermocline::residency {
namespace {

constexpr std::array<PolicyInfo, 2> kBounds = {{
    {"oracle-static", "the units used most of all of it, chosen once", ""},
    {"belady", "who is used next stays: nobody has more hits", ""},
}};

bool IsBound(std::string_view name) {
  return std::ranges::any_of(
      kBounds, [&](const PolicyInfo& info) { return info.name == name; });
}

Result<std::vector<LayerExtent>> WithCapacity(std::vector<LayerExtent> layers,
                                              const Case& one) {
  if (!(one.share >= 0.0 && one.share <= 1.0)) {
    return Fail(ErrorCode::kInvalidArgument,
                "a capacity of {} of the units: a share is from 0 to 1",
                one.share);
  }
  if (!one.capacities.empty() && one.capacities.size() != layers.size()) {
    return Fail(ErrorCode::kInvalidArgument, "capacities of {}, not of {}",
                Plural(one.capacities.size(), "layer"), layers.size());
  }
  for (size_t l = 0; l < layers.size(); ++l) {
    layers[l].capacity = one.capacities.empty()
                             ? static_cast<uint32_t>(std::llround(
                                   one.share * layers[l].num_units))
                             : std::min(one.capacities[l], layers[l].num_units);
  }
  return layers;
}

// A case that runs as tokens come, or one that waits for the recording.
struct Runner {
  std::vector<LayerExtent> layers;
  std::unique_ptr<Policy> policy;
  std::optional<Replayer> replayer;
};

Result<std::vector<Runner>> MakeRunners(const std::vector<LayerExtent>& layers,
                                        const std::vector<Case>& cases,
                                        const ReplayOptions& options) {
  std::vector<Runner> runners(cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    Runner& runner = runners[i];
    TC_ASSIGN_OR_RETURN(runner.layers, WithCapacity(layers, cases[i]));
    if (IsBound(cases[i].name)) continue;
    TC_ASSIGN_OR_RETURN(runner.policy,
                        MakePolicy(cases[i].name, runner.layers));
    runner.replayer.emplace(runner.policy.get(), runner.layers, options);
  }
  return runners;
}

Replay ReplayBound(std::string_view name, const Recording& recording,
                   const std::vector<LayerExtent>& layers,
                   const ReplayOptions& options) {
  if (name == "oracle-static") return OracleStatic(recording, layers, options);
  return options.misses == Misses::kRead
             ? Belady(recording, layers, options)
             : MovingOracle(recording, layers, options);
}

}  // namespace

std::span<const PolicyInfo> Bounds() { return kBounds; }

Result<std::vector<Replay>> ReplayCases(const std::vector<LayerExtent>& layers,
                                        const std::vector<Case>& cases,
                                        const NextToken& next,
                                        const ReplayOptions& options) {
  TC_ASSIGN_OR_RETURN(std::vector<Runner> runners,
                      MakeRunners(layers, cases, options));
  const bool keeps = std::ranges::any_of(
      cases, [](const Case& one) { return IsBound(one.name); });
  Recording recording(layers.size());
  std::vector<std::vector<uint32_t>> sets;
  for (;;) {
    TC_ASSIGN_OR_RETURN(const std::optional<Step> step, next(sets));
    if (!step) break;
    if (keeps && *step == Step::kPass) recording.Add(sets);
    for (Runner& runner : runners) {
      if (runner.replayer.has_value()) runner.replayer->Add(sets, *step);
    }
  }
  std::vector<Replay> replays;
  for (size_t i = 0; i < cases.size(); ++i) {
    const Runner& runner = runners[i];
    if (runner.replayer.has_value()) {
      replays.push_back(runner.replayer->replay());
    } else {
      replays.push_back(
          ReplayBound(cases[i].name, recording, runner.layers, options));
    }
  }
  return replays;
}

}  // namespace thermocline::residency
