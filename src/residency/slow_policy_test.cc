#include "residency/slow_policy.h"

#include <algorithm>
#include <cmath>

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
    if (used.empty() || 2 * used.size() > scores_.size()) return false;
    const auto num_resident = static_cast<double>(
        std::ranges::count_if(used, [&](uint32_t u) { return Has(u); }));
    shares_.push_back(num_resident / static_cast<double>(used.size()));
    return MeanShare(2.0) < options_.change * MeanShare(64.0);
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
  std::vector<double> shares_;  // of what each pass used, resident
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

// One text uses ten units for long, another ten others: who knows that the text
// has changed has all of them resident after eight passes, else after many.
TEST(SlowPolicy, AnotherTextIsNoticed) {
  constexpr uint32_t kNumUnits = 20;
  const auto passes_to_change = [](const SlowOptions& options) {
    const auto policy = MakeSlow({{kNumUnits, 10, {}}}, options);
    const Units first = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    const Units second = {10, 11, 12, 13, 14, 15, 16, 17, 18, 19};
    for (int pass = 0; pass < 200; ++pass) {
      RunPass(*policy, 0, kNumUnits, first);
    }
    int num_passes = 0;
    while (ResidentsOf(*policy, 0, kNumUnits) != second && num_passes < 200) {
      RunPass(*policy, 0, kNumUnits, second);
      ++num_passes;
    }
    return num_passes;
  };
  EXPECT_LE(passes_to_change({}), 8);
  const int without = passes_to_change({.change = 0.0});
  EXPECT_GE(without, 30);
  EXPECT_LT(without, 200);
}

// Prompts use nearly all experts: who was hot before stays resident.
TEST(SlowPolicy, APassOfNearlyAllIsNoOtherText) {
  constexpr uint32_t kNumUnits = 8;
  const Units all = {0, 1, 2, 3, 4, 5, 6, 7};
  const auto policy = Make("slow", {{kNumUnits, 2, {}}});
  for (int pass = 0; pass < 200; ++pass) RunPass(*policy, 0, kNumUnits, {6, 7});
  for (int pass = 0; pass < 20; ++pass) RunPass(*policy, 0, kNumUnits, all);
  // After a change one use more than others' would be enough.
  RunPass(*policy, 0, kNumUnits, {0});
  EXPECT_EQ(ResidentsOf(*policy, 0, kNumUnits), (Units{6, 7}));
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
