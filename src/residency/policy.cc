#include "residency/policy.h"

#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <string>

#include "base/quote.h"
#include "residency/makers.h"

namespace thermocline::residency {
namespace {

struct NamedPolicy {
  PolicyInfo info;
  std::unique_ptr<Policy> (*make)(const Extents& layers);
};

constexpr NamedPolicy kPolicies[] = {
    {{"static", "the most frequent units, chosen once (PowerInfer)"},
     MakeStatic},
    {{"lru", "whose last use is longest ago leaves"}, MakeLru},
    {{"lfu", "who was used least often leaves"}, MakeLfu},
    {{"two-queue", "an active and an inactive queue by recency (PowerInfer-2)"},
     MakeTwoQueue},
    {{"slow", "slow scores over the frequencies, with hysteresis (ours)"},
     MakeSlow},
    {{"window", "those of the last five tokens stay (LLM in a Flash)"},
     MakeWindow},
};

constexpr auto kInfos = [] {
  std::array<PolicyInfo, std::size(kPolicies)> infos;
  for (size_t i = 0; i < infos.size(); ++i) infos[i] = kPolicies[i].info;
  return infos;
}();

Status CheckExtent(size_t layer_idx, const LayerExtent& extent) {
  if (extent.num_units == kNobody) {
    return Fail(ErrorCode::kInvalidArgument,
                "layer {}: more units than can be numbered", layer_idx);
  }
  if (extent.frequency.empty()) return {};
  if (extent.frequency.size() != extent.num_units) {
    return Fail(ErrorCode::kInvalidArgument,
                "layer {}: has {} units, but {} frequencies: the profile is of "
                "another model",
                layer_idx, extent.num_units, extent.frequency.size());
  }
  for (size_t i = 0; i < extent.frequency.size(); ++i) {
    const float frequency = extent.frequency[i];
    if (std::isfinite(frequency) && frequency >= 0.0f) continue;
    return Fail(ErrorCode::kInvalidArgument,
                "layer {}: the frequency of unit {} is {}", layer_idx, i,
                frequency);
  }
  return {};
}

}  // namespace

std::span<const PolicyInfo> Policies() { return kInfos; }

Result<std::unique_ptr<Policy>> MakePolicy(
    std::string_view name, const std::vector<LayerExtent>& layers) {
  for (size_t l = 0; l < layers.size(); ++l) {
    TC_RETURN_IF_ERROR(CheckExtent(l, layers[l]));
  }
  std::vector<std::string_view> names;
  for (const NamedPolicy& policy : kPolicies) {
    if (policy.info.name == name) return policy.make(layers);
    names.push_back(policy.info.name);
  }
  return Fail(ErrorCode::kNotFound, "no policy is called {}; there are {}",
              Quote(name), fmt::join(names, ", "));
}

}  // namespace thermocline::residency
