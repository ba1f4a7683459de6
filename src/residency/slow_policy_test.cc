#include "residency/slow_policy.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "residency/test_passes.h"

namespace thermocline::residency {
namespace {

// Scores as they are defined, all of them in every pass.
class SlowReference : public Reference {
 public:
  SlowReference(size_t capacity, const std::vector<float>& frequency,
                const SlowOptions& options)
      : capacity_(capacity),
        options_(options),
        scores_(frequency.begin(), frequency.end()) {}
  void Begin(const Units& best_first) override { residents_ = best_first; }
  void Observe(const Units& used) override {
    used_ = used;
    const double fade =
        std::exp2(-1.0 / (HasChanged(used) ? options_.half_life_changing
                                           : options_.half_life));
    // A use counts the same whenever it was, and fades.
    for (double& score : scores_) score *= fade;
    for (const uint32_t unit : used) scores_[unit] += use_;
  }
  void Admit(uint32_t unit) override {
    if (residents_.size() == capacity_) {
      std::ranges::sort(residents_, {}, [&](uint32_t a) { return scores_[a]; });
      const auto leaves = std::ranges::find_if(residents_, [&](uint32_t other) {
        return std::ranges::count(used_, other) == 0;
      });
      if (leaves == residents_.end()) return;
      if (scores_[unit] <= scores_[*leaves] * (1.0 + options_.margin)) return;
      residents_.erase(leaves);
    }
    residents_.push_back(unit);
    used_.push_back(unit);
  }
  bool Has(uint32_t unit) const override {
    return std::ranges::count(residents_, unit) != 0;
  }

 private:
  bool HasChanged(const Units& used) {
    if (2 * used.size() > scores_.size()) return false;
    for (const uint32_t unit : used) hits_.push_back(Has(unit));
    if (hits_.size() < 32) return has_changed_;
    shares_.push_back(static_cast<double>(std::ranges::count(hits_, true)) /
                      static_cast<double>(hits_.size()));
    hits_.clear();
    has_changed_ = MeanShare(2.0) < options_.change * MeanShare(64.0);
    return has_changed_;
  }

  // A pass counts half as much as one half_life passes later.
  double MeanShare(double half_life) const {
    double sum = 0.0, weights = 0.0;
    for (size_t i = 0; i < shares_.size(); ++i) {
      const double weight =
          std::exp2(-static_cast<double>(shares_.size() - i) / half_life);
      sum += weight * shares_[i];
      weights += weight;
    }
    return weights > 0.0 ? sum / weights : 0.0;
  }

  size_t capacity_;
  SlowOptions options_;
  double use_ = 1.0 - std::exp2(-1.0 / options_.half_life);
  std::vector<double> scores_;
  std::vector<bool> hits_;      // of uses since the last share
  std::vector<double> shares_;  // of 32 uses and more, resident
  bool has_changed_ = false;
  Units residents_;
  Units used_;
};

TEST(SlowPolicy, KeepsWhatItsReferenceKeeps) {
  ExpectLikeReference("slow", [](size_t, size_t capacity, const auto& prior) {
    return std::make_unique<SlowReference>(capacity, prior, SlowOptions{});
  });
}

// Weights double from pass to pass, and no float could hold them for long: who
// was used last wins all the same.
TEST(SlowPolicy, ScoresOutlastTheirScale) {
  const auto policy =
      MakeSlow({{3, 1, {}}}, {.half_life = 1.0, .margin = 0.05});
  for (uint32_t turn = 0; turn < 60; ++turn) {
    for (int pass = 0; pass < 10; ++pass) RunPass(*policy, 0, 3, {turn % 3});
    ASSERT_EQ(ResidentsOf(*policy, 0, 3), (Units{turn % 3})) << turn;
  }
}

Units UnitsFrom(uint32_t first, uint32_t count) {
  Units units(count);
  std::iota(units.begin(), units.end(), first);
  return units;
}

// One text uses some units for long, another as many others: who knows that the
// text has changed has all of them resident after few passes, else after many.
// Where passes use few, it takes some to be sure.
TEST(SlowPolicy, AnotherTextIsNoticed) {
  const auto passes_to_change = [](uint32_t count, const SlowOptions& options) {
    const auto policy = MakeSlow({{2 * count, count, {}}}, options);
    for (int pass = 0; pass < 200; ++pass) {
      RunPass(*policy, 0, 2 * count, UnitsFrom(0, count));
    }
    const Units second = UnitsFrom(count, count);
    int num_passes = 0;
    while (ResidentsOf(*policy, 0, 2 * count) != second && num_passes < 200) {
      RunPass(*policy, 0, 2 * count, second);
      ++num_passes;
    }
    return num_passes;
  };
  EXPECT_LE(passes_to_change(64, {}), 8);
  EXPECT_LE(passes_to_change(8, {}), 8 + 8);
  for (const uint32_t count : {64, 8}) {
    const int without = passes_to_change(count, {.change = 0.0});
    EXPECT_GE(without, 30);
    EXPECT_LT(without, 200);
  }
}

// Prompts use nearly all experts: who was hot before stays resident.
TEST(SlowPolicy, APassOfNearlyAllIsNoOtherText) {
  constexpr uint32_t kNumUnits = 800;
  const auto policy = Make("slow", {{kNumUnits, 200, {}}});
  const Units hot = UnitsFrom(600, 200);
  for (int pass = 0; pass < 200; ++pass) RunPass(*policy, 0, kNumUnits, hot);
  for (int pass = 0; pass < 20; ++pass) {
    RunPass(*policy, 0, kNumUnits, UnitsFrom(0, kNumUnits));
  }
  // After a change one use more than others' would be enough.
  RunPass(*policy, 0, kNumUnits, {0});
  EXPECT_EQ(ResidentsOf(*policy, 0, kNumUnits), hot);
}

// Of two uses in a pass none may be resident by chance: nobody comes whom
// steady scores would not let in.
TEST(SlowPolicy, ChanceIsNoOtherText) {
  constexpr uint32_t kNumUnits = 8;
  Random random(5);
  const auto policy = Make("slow", {{kNumUnits, 4, {}}});
  const auto steady =
      MakeSlow({{kNumUnits, 4, {}}}, SlowOptions{.change = 0.0});
  for (int pass = 0; pass < 2000; ++pass) {
    const auto first = static_cast<uint32_t>(random.Below(kNumUnits));
    const auto step = static_cast<uint32_t>(1 + random.Below(kNumUnits - 1));
    Units used = {first, (first + step) % kNumUnits};
    std::ranges::sort(used);
    RunPass(*policy, 0, kNumUnits, used);
    RunPass(*steady, 0, kNumUnits, used);
    ASSERT_EQ(ResidentsOf(*policy, 0, kNumUnits),
              ResidentsOf(*steady, 0, kNumUnits))
        << pass;
  }
}

// A use adds 1/47 to a score, and 1/20 better is clearly better.
TEST(SlowPolicy, ANewcomerHasToBeClearlyBetter) {
  const float worst = 0.20f;
  for (const auto& [newcomer, is_admitted] :
       {std::pair{0.15f, false}, {0.18f, false}, {0.195f, true}}) {
    const std::vector<float> frequency = {worst, newcomer, 0.5f};
    const auto policy = Make("slow", {{3, 2, frequency}});
    EXPECT_EQ(policy->Initial(0), (Units{2, 0}));
    policy->Observe(0, OwnedSet(3, {1}).set());
    EXPECT_EQ(policy->Admit(0, 1, {}).is_admitted, is_admitted) << newcomer;
  }
}

// Nothing was read: who became better meanwhile is proposed, the best first.
TEST(SlowPolicy, ProposesWhoHasBecomeBetter) {
  const std::vector<float> frequency = {0.9f, 0.3f, 0.2f, 0.1f, 0.05f};
  const auto policy = Make("slow", {{5, 3, frequency}});
  EXPECT_EQ(policy->Initial(0), (Units{0, 1, 2}));
  EXPECT_TRUE(policy->Propose(0, 9).empty());
  for (int pass = 0; pass < 20; ++pass) {
    policy->Observe(0, OwnedSet(5, {3, 4}).set());
  }
  EXPECT_TRUE(policy->Propose(0, 0).empty());
  const auto moves = policy->Propose(0, 9);
  ASSERT_EQ(moves.size(), 2u);
  EXPECT_EQ(moves[0].unit, 3u);
  EXPECT_EQ(moves[0].leaves, 2u);
  EXPECT_EQ(moves[1].unit, 4u);
  EXPECT_EQ(moves[1].leaves, 1u);
  EXPECT_TRUE(policy->Propose(0, 9).empty());
}

TEST(SlowPolicy, FillsRoomByProposing) {
  const std::vector<float> frequency = {0.1f, 0.3f, 0.2f};
  const auto policy = Make("slow", {{3, 2, frequency}});
  const auto moves = policy->Propose(0, 9);
  ASSERT_EQ(moves.size(), 2u);
  EXPECT_EQ(moves[0].unit, 1u);
  EXPECT_EQ(moves[1].unit, 2u);
  EXPECT_EQ(moves[1].leaves, kNobody);
}

}  // namespace
}  // namespace thermocline::residency
