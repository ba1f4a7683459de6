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
        fade_(std::exp2(-1.0 / options.half_life)),
        margin_(options.margin),
        scores_(frequency.begin(), frequency.end()) {}
  void Begin(const Units& best_first) override { residents_ = best_first; }
  void Observe(const Units& used) override {
    used_ = used;
    for (double& score : scores_) score *= fade_;
    for (const uint32_t unit : used) scores_[unit] += 1.0 - fade_;
  }
  void Admit(uint32_t unit) override {
    if (residents_.size() == capacity_) {
      std::ranges::sort(residents_, {}, [&](uint32_t a) { return scores_[a]; });
      const auto leaves = std::ranges::find_if(residents_, [&](uint32_t other) {
        return std::ranges::count(used_, other) == 0;
      });
      if (leaves == residents_.end()) return;
      if (scores_[unit] <= scores_[*leaves] * (1.0 + margin_)) return;
      residents_.erase(leaves);
    }
    residents_.push_back(unit);
    used_.push_back(unit);
  }
  bool Has(uint32_t unit) const override {
    return std::ranges::count(residents_, unit) != 0;
  }

 private:
  size_t capacity_;
  double fade_;
  double margin_;
  std::vector<double> scores_;
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
