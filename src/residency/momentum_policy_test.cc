#include "residency/momentum_policy.h"

#include <algorithm>

#include "residency/test_ranked.h"

namespace thermocline::residency {
namespace {

// Algorithm 1, line by line.
class MomentumReference : public RankedReference {
 public:
  MomentumReference(const LayerExtent& extent, const MomentumOptions& options)
      : options_(options), lambda_(options.lambda) {
    scores.assign(extent.num_units, 0.0);
  }
  void Tell(Bottleneck what) override {
    if (!options_.adapts) return;
    if (what == Bottleneck::kMoves) {
      lambda_ = std::min(lambda_ * (1.0 + options_.alpha), options_.max);
    }
    if (what == Bottleneck::kMisses) {
      lambda_ = std::max(lambda_ * (1.0 - options_.alpha), options_.min);
    }
  }
  void Observe(const std::vector<double>& shares) override {
    for (size_t i = 0; i < scores.size(); ++i) {
      scores[i] = lambda_ * scores[i] + (1.0 - lambda_) * shares[i];
    }
    floor = options_.has_tau && lambda_ > 0.0 ? 1.0 - lambda_ + options_.epsilon
                                              : 0.0;
  }

 private:
  MomentumOptions options_;
  double lambda_;
};

TEST(MomentumPolicy, RanksAsItsReferenceDoes) {
  const struct {
    const char* spec;
    MomentumOptions options;
  } rows[] = {
      {"momentum", {}},
      {"momentum:adapt=off", {.adapts = false}},
      {"momentum:tau=off", {.has_tau = false}},
      {"momentum:lambda=0,adapt=off", {.lambda = 0.0, .adapts = false}},
      // Bounds that feedback reaches at once.
      {"momentum:lambda=0.6,alpha=0.5,min=0.3,max=0.8",
       {.lambda = 0.6, .alpha = 0.5, .min = 0.3, .max = 0.8}},
      {"momentum:eps=0.3,lambda=0.8", {.lambda = 0.8, .epsilon = 0.3}},
  };
  for (const auto& row : rows) {
    ExpectRanksLike(row.spec, [&](const LayerExtent& extent) {
      return std::make_unique<MomentumReference>(extent, row.options);
    });
  }
}

void UsePass(Policy& policy, size_t num_units, const Units& used) {
  policy.Observe(0, OwnedSet(num_units, used).set());
}

// 0.5 after one use alone, 0.75 after two: the threshold is 0.51.
TEST(MomentumPolicy, OneHitWondersDoNotCome) {
  const auto policy = Make("momentum:adapt=off", {{3, 1, {}}});
  policy->Initial(0);
  UsePass(*policy, 3, {1});
  EXPECT_TRUE(policy->Propose(0, 9).empty());
  EXPECT_FALSE(policy->Admit(0, 1, {}).is_admitted);
  UsePass(*policy, 3, {1});
  const auto moves = policy->Propose(0, 9);
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_EQ(moves[0].unit, 1u);
  EXPECT_EQ(moves[0].leaves, 0u);
}

// The threshold of lambda = 0 would be above all scores.
TEST(MomentumPolicy, WithoutInertiaWhoIsUsedComes) {
  const auto policy = Make("momentum:lambda=0,adapt=off", {{3, 1, {}}});
  policy->Initial(0);
  UsePass(*policy, 3, {1});
  EXPECT_EQ(policy->Propose(0, 9).size(), 1u);
}

// A quarter of a group is below every threshold of lambda = 0.5, for ever.
TEST(MomentumPolicy, TheThresholdKeepsOutGroupsThatAreUsedByAQuarter) {
  LayerExtent extent = {3, 1, {}};
  extent.members_per_unit = 4;
  for (const auto& [spec, comes] :
       {std::pair{"momentum:adapt=off", false}, {"momentum:tau=off", true}}) {
    const auto policy = Make(spec, {extent});
    policy->Initial(0);
    for (int pass = 0; pass < 50; ++pass) UsePass(*policy, 12, {5});
    EXPECT_EQ(!policy->Propose(0, 9).empty(), comes) << spec;
  }
}

// Waits for moves make lambda 0.95, those for misses 0.05. Three uses and two
// passes of rest are then 0.13, or 0.0025; with 0.5 they are 0.22. Two uses in
// sight are 0.0975, below that; 0.9975; 0.75.
TEST(MomentumPolicy, WaitsForMovesMakeItSlower) {
  for (const auto& [what, comes] : {std::pair{Bottleneck::kMisses, true},
                                    {Bottleneck::kMoves, false},
                                    {Bottleneck::kNothing, true}}) {
    const auto policy = Make("momentum", {{3, 1, {}}});
    policy->Initial(0);
    for (int pass = 0; pass < 200; ++pass) {
      policy->Tell(0, what);
      UsePass(*policy, 3, {});
    }
    for (int pass = 0; pass < 3; ++pass) UsePass(*policy, 3, {1});
    EXPECT_EQ(policy->Propose(0, 9).size(), 1u);
    for (int pass = 0; pass < 2; ++pass) UsePass(*policy, 3, {2});
    EXPECT_EQ(policy->Propose(0, 9).size(), comes ? 1u : 0u)
        << static_cast<int>(what);
  }
}

TEST(MomentumPolicy, ParametersThatContradictEachOtherAreRefused) {
  const struct {
    const char* spec;
    const char* message;
  } rows[] = {
      {"momentum:min=0.6,max=0.5",
       "policy momentum: min is 0.6, and max only "},
      {"momentum:lambda=0", "lambda is 0, which is not from min, 0.05, to"},
      {"momentum:lambda=0.99", "to max, 0.95; with adapt=off it may be"},
  };
  for (const auto& row : rows) {
    const Status status = CheckPolicySpec(row.spec);
    ASSERT_FALSE(status.has_value()) << row.spec;
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(status.error().message.find(row.message), std::string::npos)
        << status.error().message;
  }
  EXPECT_TRUE(CheckPolicySpec("momentum:lambda=0.99,adapt=off").has_value());
}

}  // namespace
}  // namespace thermocline::residency
