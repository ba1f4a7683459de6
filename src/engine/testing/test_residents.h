// What a policy of a stream has, token by token, and what a replay of the same
// uses has, for tests.
#ifndef THERMOCLINE_ENGINE_TESTING_TEST_RESIDENTS_H_
#define THERMOCLINE_ENGINE_TESTING_TEST_RESIDENTS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/ffn/ffn_observer.h"
#include "engine/stream/live_policy.h"
#include "engine/stream/stream_options.h"
#include "engine/testing/test_restless_policy.h"
#include "residency/policy.h"
#include "residency/replay.h"

namespace thermocline::engine::testing {

// One that is no policy's, but of a RestlessPolicy.
inline constexpr const char* kRestless = "restless";
inline Result<std::unique_ptr<residency::Policy>> MakeTestPolicy(
    std::string_view spec, const std::vector<residency::LayerExtent>& layers) {
  if (spec != kRestless) return residency::MakePolicy(spec, layers);
  return std::unique_ptr<residency::Policy>(
      std::make_unique<RestlessPolicy>(layers, 7));
}

// Every policy, some with parameters too; for MakeTestPolicy.
inline std::vector<std::string> PolicySpecs() {
  std::vector<std::string> specs = {kRestless};
  for (const residency::PolicyInfo& policy : residency::Policies()) {
    specs.emplace_back(policy.name);
    if (policy.parameters.empty()) continue;
    specs.push_back(std::string(policy.name) + ":" +
                    std::string(policy.parameters));
  }
  return specs;
}

using Residents = std::vector<std::vector<uint32_t>>;  // [L]

inline Residents ResidentsOf(const LivePolicy& live) {
  Residents residents;
  for (size_t l = 0; l < live.extents().size(); ++l) {
    std::vector<uint32_t>& units = residents.emplace_back();
    const neuron::NeuronSet set = live.residents(l);
    set.ForEachIn(0, set.num_neurons, [&](size_t unit) {
      units.push_back(static_cast<uint32_t>(unit));
    });
  }
  return residents;
}

// Gathers what generated rows used: the observer of a runtime, of one row a
// pass.
class UsesOfTokens {
 public:
  // Experts, or neurons.
  UsesOfTokens(size_t num_layers, bool of_experts)
      : layers_(num_layers), of_experts_(of_experts) {}

  FfnObserver observer() {
    return [this](const FfnObservation& seen) {
      std::vector<uint32_t>& units = layers_[seen.layer_idx];
      const auto used = of_experts_ ? seen.experts : seen.candidates;
      units.insert(units.end(), used.begin(), used.end());
    };
  }
  // Of all rows since the last call: their union, ascending.
  std::vector<std::vector<uint32_t>> TakeUnion() {
    std::vector<std::vector<uint32_t>> layers(layers_.size());
    std::swap(layers, layers_);
    for (std::vector<uint32_t>& units : layers) {
      std::ranges::sort(units);
      const auto rest = std::ranges::unique(units);
      units.erase(rest.begin(), rest.end());
    }
    return layers;
  }

 private:
  std::vector<std::vector<uint32_t>> layers_;
  bool of_experts_;
};

// The same policy beside an engine's, told of the same uses.
class ReplayBeside {
 public:
  ReplayBeside(const std::string& spec, const LivePolicy& live)
      : policy_(MakeTestPolicy(spec, live.extents()).value()),
        replayer_(policy_.get(), live.extents(),
                  ReplayOptionsFor(live.moves_per_token())),
        extents_(live.extents()) {}

  // Expects that the engine has now counted and kept the same.
  void ExpectSame(const std::vector<std::vector<uint32_t>>& uses,
                  const LivePolicy& live, const StreamTotals::OfPhase& before,
                  const StreamTotals::OfPhase& after) {
    const residency::Tally last = replayer_.replay().total();
    replayer_.Add(uses);
    const residency::Tally now = replayer_.replay().total();
    EXPECT_EQ(after.num_wanted - before.num_wanted,
              now.accesses - last.accesses);
    EXPECT_EQ(after.num_hits - before.num_hits, now.hits - last.hits);
    EXPECT_EQ(after.num_admissions - before.num_admissions,
              now.admissions - last.admissions);
    EXPECT_EQ(after.num_moves - before.num_moves, now.moves - last.moves);
    EXPECT_EQ(after.num_wasted - before.num_wasted, now.wasted - last.wasted);
    EXPECT_EQ(ResidentsOf(live), residents());
  }
  uint64_t num_moves() const { return replayer_.replay().total().moves; }

 private:
  Residents residents() const {
    Residents residents(extents_.size());
    for (size_t l = 0; l < extents_.size(); ++l) {
      for (uint32_t unit = 0; unit < extents_[l].num_units; ++unit) {
        if (policy_->IsResident(l, unit)) residents[l].push_back(unit);
      }
    }
    return residents;
  }

  std::unique_ptr<residency::Policy> policy_;
  residency::Replayer replayer_;
  std::vector<residency::LayerExtent> extents_;
};

}  // namespace thermocline::engine::testing

#endif  // THERMOCLINE_ENGINE_TESTING_TEST_RESIDENTS_H_
