// Policies that keep who ranks best, against scores straight from a paper's
// equations.
#ifndef THERMOCLINE_RESIDENCY_TEST_RANKED_H_
#define THERMOCLINE_RESIDENCY_TEST_RANKED_H_

#include <algorithm>
#include <limits>
#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include "residency/test_passes.h"

namespace thermocline::residency {

class RankedReference {
 public:
  virtual ~RankedReference() = default;
  virtual void Tell(Bottleneck what) = 0;
  // `shares` [num_units] of each unit's members that are used.
  virtual void Observe(const std::vector<double>& shares) = 0;

  std::vector<double> scores;  // [num_units]
  double floor = 0.0;          // who comes where somebody leaves is above
};

// Every answer of a policy is the best that the reference's scores allow. These
// are doubles: who differs by less than kNear may be taken for the other.
class RankedChecker {
 public:
  static constexpr double kNear = 1e-4;

  RankedChecker(Policy* policy, const LayerExtent& extent,
                RankedReference* reference)
      : policy_(policy), extent_(extent), reference_(reference) {}

  void Begin() {
    const Units units = policy_->Initial(0);
    residents_.insert(units.begin(), units.end());
  }

  void Pass(Random& random, double share) {
    if (random.Below(2) == 0) {
      constexpr Bottleneck kAll[] = {Bottleneck::kNothing, Bottleneck::kMoves,
                                     Bottleneck::kMisses};
      const Bottleneck what = kAll[random.Below(3)];
      policy_->Tell(0, what);
      reference_->Tell(what);
    }
    const Units members = DrawUnits(random, extent_.members(), share);
    std::vector<double> shares(extent_.num_units, 0.0);
    used_.clear();
    for (const uint32_t member : members) {
      const uint32_t unit = member / extent_.members_per_unit;
      const uint32_t first = unit * extent_.members_per_unit;
      const uint32_t size =
          std::min(extent_.members_per_unit, extent_.members() - first);
      shares[unit] += 1.0 / size;
      used_.insert(unit);
    }
    reference_->Observe(shares);
    policy_->Observe(0, OwnedSet(extent_.members(), members).set());
    if (random.Below(2) == 0) AdmitAll();
    Propose(random.Below(3) == 0 ? 1000 : random.Below(4));
  }

 private:
  double Score(uint32_t unit) const { return reference_->scores[unit]; }

  // The lowest score of those that may leave; where there is room less than
  // any.
  double Worst() const {
    if (residents_.size() < extent_.capacity) return -1.0;
    double worst = std::numeric_limits<double>::infinity();
    for (const uint32_t unit : residents_) {
      if (!used_.contains(unit)) worst = std::min(worst, Score(unit));
    }
    return worst;
  }

  void Move(uint32_t unit, uint32_t leaves) {
    const double worst = Worst();
    ASSERT_EQ(leaves == kNobody, worst < 0.0);
    if (leaves != kNobody) {
      EXPECT_FALSE(used_.contains(leaves));
      EXPECT_NEAR(Score(leaves), worst, kNear);
      EXPECT_GT(Score(unit), worst - kNear);
      ASSERT_EQ(residents_.erase(leaves), 1u);
    }
    ASSERT_TRUE(residents_.insert(unit).second);
    used_.insert(unit);
  }

  void AdmitAll() {
    for (const uint32_t unit : Units(used_.begin(), used_.end())) {
      if (residents_.contains(unit)) continue;
      const double worst = Worst();
      const double bar =
          worst < 0.0 ? worst : std::max(worst, reference_->floor);
      const auto answer = policy_->Admit(0, unit, {});
      if (answer.is_admitted) {
        EXPECT_GT(Score(unit), bar - kNear);
        Move(unit, answer.leaves);
      } else if (extent_.capacity > 0) {
        EXPECT_LT(Score(unit), bar + kNear);
      }
    }
  }

  // The greatest score of who is missing.
  double BestMissing() const {
    double best = 0.0;
    for (uint32_t unit = 0; unit < extent_.num_units; ++unit) {
      if (!residents_.contains(unit)) best = std::max(best, Score(unit));
    }
    return best;
  }

  void Propose(size_t most) {
    const auto moves = policy_->Propose(0, most);
    ASSERT_LE(moves.size(), most);
    for (const Policy::Move& move : moves) {
      EXPECT_GT(Score(move.unit), reference_->floor - kNear);
      EXPECT_NEAR(Score(move.unit), BestMissing(), kNear);
      Move(move.unit, move.leaves);
    }
    if (moves.size() == most || extent_.capacity == 0) return;
    EXPECT_LT(BestMissing(), std::max(Worst(), reference_->floor) + kNear);
  }

  Policy* policy_;
  LayerExtent extent_;
  RankedReference* reference_;
  std::set<uint32_t> residents_;
  std::set<uint32_t> used_;  // may not leave
};

// Over random groups of which the last is short, capacities from none to all.
template <class MakeReference>
void ExpectRanksLike(std::string_view spec, MakeReference make) {
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE(fmt::format("{}, seed {}", spec, seed));
    Random random(seed);
    LayerExtent extent;
    extent.num_units = static_cast<uint32_t>(1 + random.Below(50));
    extent.capacity = static_cast<uint32_t>(random.Below(extent.num_units + 1));
    extent.members_per_unit = static_cast<uint32_t>(1 + random.Below(5));
    extent.num_members = extent.num_units * extent.members_per_unit;
    extent.num_members -=
        static_cast<uint32_t>(random.Below(extent.members_per_unit));
    std::vector<float> frequency(extent.num_units);
    for (float& value : frequency) value = random.Uniform(0.0f, 1.0f);
    extent.frequency = frequency;
    const auto policy = Make(spec, {extent});
    const auto reference = make(extent);
    RankedChecker checker(policy.get(), extent, reference.get());
    if (seed % 2 == 0) checker.Begin();
    const double share = random.Uniform() / 2;
    for (int pass = 0; pass < 60; ++pass) {
      checker.Pass(random, share);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace thermocline::residency

#endif  // THERMOCLINE_RESIDENCY_TEST_RANKED_H_
