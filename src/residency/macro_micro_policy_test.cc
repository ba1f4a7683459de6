#include "residency/macro_micro_policy.h"

#include <algorithm>

#include "residency/test_ranked.h"

namespace thermocline::residency {
namespace {

// E.3.1 and E.3.4: who is pinned is before all others.
class MacroMicroReference : public RankedReference {
 public:
  MacroMicroReference(const LayerExtent& extent,
                      const MacroMicroOptions& options)
      : options_(options),
        uses_(extent.frequency.begin(), extent.frequency.end()),
        num_passes_(options.prior) {
    for (double& uses : uses_) uses *= options.prior;
    scores.assign(extent.num_units, 0.0);
  }
  void Tell(Bottleneck /*what*/) override {}
  void Observe(const std::vector<double>& shares) override {
    num_passes_ += 1.0;
    for (size_t i = 0; i < scores.size(); ++i) {
      uses_[i] += shares[i];
      const double frequency = uses_[i] / num_passes_;
      scores[i] = shares[i] + options_.lambda * frequency;
      if (frequency >= options_.phi) scores[i] += 2.0 + options_.lambda;
    }
  }

 private:
  MacroMicroOptions options_;
  std::vector<double> uses_;
  double num_passes_;
};

TEST(MacroMicroPolicy, RanksAsItsReferenceDoes) {
  const struct {
    const char* spec;
    MacroMicroOptions options;
  } rows[] = {
      {"macro-micro", {}},
      {"macro-micro:phi=2", {.phi = 2.0}},
      // Not a number that a frequency can be.
      {"macro-micro:prior=10.3,phi=0.2101", {.phi = 0.2101, .prior = 10.3}},
      {"macro-micro:lambda=3,phi=0.7003,prior=0",
       {.lambda = 3.0, .phi = 0.7003, .prior = 0.0}},
  };
  for (const auto& row : rows) {
    ExpectRanksLike(row.spec, [&](const LayerExtent& extent) {
      return std::make_unique<MacroMicroReference>(extent, row.options);
    });
  }
}

// Unit 1 was used in nine of ten passes, and stays although 2 is used now.
TEST(MacroMicroPolicy, WhoIsFrequentIsPinned) {
  // Without frequencies there are no passes before the first.
  for (const auto& [spec, stays] : {std::pair{"macro-micro:prior=0", true},
                                    {"macro-micro:prior=64", true},
                                    {"macro-micro:prior=0,phi=2", false}}) {
    const auto policy = Make(spec, {{3, 1, {}}});
    policy->Initial(0);
    for (int pass = 0; pass < 9; ++pass) RunPass(*policy, 0, 3, {1});
    RunPass(*policy, 0, 3, {2});
    EXPECT_EQ(ResidentsOf(*policy, 0, 3), (Units{stays ? 1u : 2u})) << spec;
  }
}

// Of what is used now the frequent one comes first; of the rest nobody who is
// less frequent than who would leave.
TEST(MacroMicroPolicy, OfThoseUsedTheFrequentComesFirst) {
  const std::vector<float> frequency = {0.4f, 0.1f, 0.3f, 0.2f};
  const auto policy = Make("macro-micro", {{4, 1, frequency}});
  EXPECT_EQ(policy->Initial(0), (Units{0}));
  policy->Observe(0, OwnedSet(4, {1, 2}).set());
  const auto moves = policy->Propose(0, 9);
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_EQ(moves[0].unit, 2u);
  EXPECT_EQ(moves[0].leaves, 0u);
}

}  // namespace
}  // namespace thermocline::residency
