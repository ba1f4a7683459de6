#include "residency/policy.h"

#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>

#include "base/quote.h"
#include "residency/macro_micro_policy.h"
#include "residency/makers.h"
#include "residency/momentum_policy.h"
#include "residency/policy_spec.h"
#include "residency/slow_policy.h"

namespace thermocline::residency {
namespace {

constexpr ParameterInfo kSlowParameters[] = {
    {"half-life", SlowOptions{}.half_life, 1.0, 1e6},
    {"margin", SlowOptions{}.margin, 0.0, 10.0},
    {"change", SlowOptions{}.change, 0.0, 1.0},
    {"changing", SlowOptions{}.half_life_changing, 1.0, 1e6},
};

constexpr MacroMicroOptions kMacroMicro;
constexpr ParameterInfo kMacroMicroParameters[] = {
    {"lambda", kMacroMicro.lambda, 0.0, 1000.0},
    {"phi", kMacroMicro.phi, 0.001, 2.0},
    {"prior", kMacroMicro.prior, 0.0, 1e9},
};

constexpr double kMostLambda = 0.9999;
constexpr MomentumOptions kMomentum;
constexpr ParameterInfo kMomentumParameters[] = {
    {"lambda", kMomentum.lambda, 0.0, kMostLambda},
    {"alpha", kMomentum.alpha, 0.0, kMostLambda},
    {"eps", kMomentum.epsilon, 0.0, 1.0},
    {"min", kMomentum.min, 0.0, kMostLambda},
    {"max", kMomentum.max, 0.0, kMostLambda},
    {"tau", kMomentum.has_tau ? 1.0 : 0.0, 0.0, 1.0, true},
    {"adapt", kMomentum.adapts ? 1.0 : 0.0, 0.0, 1.0, true},
};

struct NamedPolicy {
  std::string_view name;
  std::string_view text;
  std::span<const ParameterInfo> parameters;
  // Both want what ParseParameters gave; no check: each in its range is enough.
  std::unique_ptr<Policy> (*make)(const Extents& layers, const Parameters&);
  Status (*check)(const Parameters&) = nullptr;
};

template <std::unique_ptr<Policy> (*kMake)(const Extents&)>
std::unique_ptr<Policy> MakePlain(const Extents& layers, const Parameters&) {
  return kMake(layers);
}

std::unique_ptr<Policy> MakeSlowOf(const Extents& layers,
                                   const Parameters& parameters) {
  return MakeSlow(layers, {.half_life = parameters.Get("half-life"),
                           .margin = parameters.Get("margin"),
                           .change = parameters.Get("change"),
                           .half_life_changing = parameters.Get("changing")});
}

std::unique_ptr<Policy> MakeMacroMicroOf(const Extents& layers,
                                         const Parameters& parameters) {
  return MakeMacroMicro(layers, {.lambda = parameters.Get("lambda"),
                                 .phi = parameters.Get("phi"),
                                 .prior = parameters.Get("prior")});
}

std::unique_ptr<Policy> MakeMomentumOf(const Extents& layers,
                                       const Parameters& parameters) {
  return MakeMomentum(layers, {.lambda = parameters.Get("lambda"),
                               .alpha = parameters.Get("alpha"),
                               .epsilon = parameters.Get("eps"),
                               .min = parameters.Get("min"),
                               .max = parameters.Get("max"),
                               .has_tau = parameters.IsOn("tau"),
                               .adapts = parameters.IsOn("adapt")});
}

Status CheckMomentum(const Parameters& parameters) {
  const double lambda = parameters.Get("lambda");
  const double min = parameters.Get("min");
  const double max = parameters.Get("max");
  if (min > max) {
    return Fail(ErrorCode::kInvalidArgument,
                "policy momentum: min is {}, and max only {}", min, max);
  }
  if (!parameters.IsOn("adapt") || (lambda >= min && lambda <= max)) return {};
  return Fail(ErrorCode::kInvalidArgument,
              "policy momentum: lambda is {}, which is not from min, {}, to "
              "max, {}; with adapt=off it may be",
              lambda, min, max);
}

constexpr NamedPolicy kPolicies[] = {
    {"static",
     "the most frequent units, chosen once (PowerInfer)",
     {},
     MakePlain<MakeStatic>},
    {"lru", "whose last use is longest ago leaves", {}, MakePlain<MakeLru>},
    {"lfu", "who was used least often leaves", {}, MakePlain<MakeLfu>},
    {"two-queue",
     "an active and an inactive queue by recency (PowerInfer-2)",
     {},
     MakePlain<MakeTwoQueue>},
    {"slow", "slow scores over the frequencies, with hysteresis (ours)",
     kSlowParameters, MakeSlowOf},
    {"eager",
     "all that is used comes, whose arrival is longest ago leaves (Neuralink)",
     {},
     MakePlain<MakeEager>},
    {"current",
     "who is used most in this round comes (Q-Infer)",
     {},
     MakePlain<MakeCurrent>},
    {"macro-micro",
     "who is used now, and by frequency; frequent ones stay (DynamicInfer)",
     kMacroMicroParameters, MakeMacroMicroOf},
    {"momentum", "scores of recent uses over a threshold, fed back (KAIROX)",
     kMomentumParameters, MakeMomentumOf, CheckMomentum},
    {"window",
     "those of the last five tokens stay (LLM in a Flash)",
     {},
     MakePlain<MakeWindow>},
};

// Texts of their parameters, and infos that point to them.
struct Infos {
  std::array<std::string, std::size(kPolicies)> parameters;
  std::array<PolicyInfo, std::size(kPolicies)> infos;

  Infos() {
    for (size_t i = 0; i < infos.size(); ++i) {
      parameters[i] = DescribeParameters(kPolicies[i].parameters);
      infos[i] = {kPolicies[i].name, kPolicies[i].text, parameters[i]};
    }
  }
};

struct ParsedSpec {
  const NamedPolicy* policy;
  Parameters parameters;
};

Result<ParsedSpec> ParseSpec(std::string_view spec) {
  const std::string_view name = NameInSpec(spec);
  std::vector<std::string_view> names;
  for (const NamedPolicy& policy : kPolicies) {
    names.push_back(policy.name);
    if (policy.name != name) continue;
    TC_ASSIGN_OR_RETURN(Parameters parameters,
                        ParseParameters(spec, policy.parameters));
    if (policy.check != nullptr) {
      TC_RETURN_IF_ERROR(policy.check(parameters));
    }
    return ParsedSpec{&policy, std::move(parameters)};
  }
  return Fail(ErrorCode::kNotFound, "no policy is called {}; there are {}",
              Quote(name), fmt::join(names, ", "));
}

// Each unit has members, and all members have numbers.
Status CheckMembers(size_t layer_idx, const LayerExtent& extent) {
  const uint64_t per_unit = extent.members_per_unit;
  const uint64_t most = per_unit * extent.num_units;
  const uint64_t least = extent.num_units == 0 ? 0 : most - per_unit + 1;
  const uint64_t num_members =
      extent.num_members == 0 ? most : extent.num_members;
  if (per_unit > 0 && most < kNobody && num_members >= least &&
      num_members <= most) {
    return {};
  }
  return Fail(ErrorCode::kInvalidArgument,
              "layer {}: {} members do not make {} units of {}", layer_idx,
              num_members, extent.num_units, per_unit);
}

Status CheckExtent(size_t layer_idx, const LayerExtent& extent) {
  if (extent.num_units == kNobody) {
    return Fail(ErrorCode::kInvalidArgument,
                "layer {}: more units than can be numbered", layer_idx);
  }
  TC_RETURN_IF_ERROR(CheckMembers(layer_idx, extent));
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

std::span<const PolicyInfo> Policies() {
  static const Infos all;
  return all.infos;
}

Status CheckPolicySpec(std::string_view spec) {
  TC_RETURN_IF_ERROR(ParseSpec(spec));
  return {};
}

Result<std::unique_ptr<Policy>> MakePolicy(
    std::string_view spec, const std::vector<LayerExtent>& layers) {
  TC_ASSIGN_OR_RETURN(const ParsedSpec parsed, ParseSpec(spec));
  for (size_t l = 0; l < layers.size(); ++l) {
    TC_RETURN_IF_ERROR(CheckExtent(l, layers[l]));
  }
  return parsed.policy->make(layers, parsed.parameters);
}

}  // namespace thermocline::residency
