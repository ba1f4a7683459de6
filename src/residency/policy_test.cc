#include "residency/policy.h"

#include <gmock/gmock.h>

#include <limits>
#include <set>

#include "residency/test_passes.h"

namespace thermocline::residency {
namespace {

// Layers of many sizes and capacities: of none, one, some, all and more than
// there are; a mixture's few experts; and what has no frequencies.
class RandomLayers {
 public:
  explicit RandomLayers(Random& random) {
    const uint32_t shapes[][2] = {{70, 0},  {70, 1},   {70, 7},  {64, 32},
                                  {65, 65}, {100, 90}, {8, 3},   {1, 1},
                                  {9, 99},  {0, 4},    {130, 13}};
    for (const auto& shape : shapes) {
      std::vector<float>& frequency = frequencies_.emplace_back();
      for (uint32_t i = 0; i < shape[0]; ++i) {
        frequency.push_back(random.Uniform(0.0f, 1.0f));
      }
      if (random.Below(4) == 0) frequency.clear();
      extents_.push_back({shape[0], shape[1], {}});
    }
    for (size_t l = 0; l < extents_.size(); ++l) {
      extents_[l].frequency = frequencies_[l];
    }
  }
  const std::vector<LayerExtent>& extents() const { return extents_; }

 private:
  std::vector<std::vector<float>> frequencies_;
  std::vector<LayerExtent> extents_;
};

// Asks a policy and checks every answer against a set of its own.
class CheckedLayer {
 public:
  CheckedLayer(Policy* policy, size_t layer_idx, const LayerExtent& extent)
      : policy_(policy),
        layer_idx_(layer_idx),
        num_units_(extent.num_units),
        capacity_(std::min(extent.capacity, extent.num_units)) {}

  void Begin() {
    const Units units = policy_->Initial(layer_idx_);
    residents_.insert(units.begin(), units.end());
    ASSERT_EQ(residents_.size(), units.size());
    ASSERT_EQ(units.size(), capacity_);
    ExpectSame();
  }

  void Pass(Random& random) {
    const Units used = DrawUnits(random, num_units_, random.Uniform() / 2);
    const Units others = DrawUnits(random, num_units_, random.Uniform());
    OwnedSet pinned(num_units_, others);
    used_ = {used.begin(), used.end()};
    policy_->Observe(layer_idx_, OwnedSet(num_units_, used).set());
    for (const uint32_t unit : used) {
      if (residents_.contains(unit) || random.Below(8) == 0) continue;
      const bool pins = random.Below(2) == 0;
      Admit(unit, pins ? pinned.set() : neuron::NeuronSet{},
            pins ? others : Units{});
    }
    ExpectSame();
    Propose(random.Below(5));
    ExpectSame();
  }

  const std::string& log() const { return log_; }

 private:
  void Admit(uint32_t unit, const neuron::NeuronSet& pinned,
             const Units& others) {
    const bool was_full = residents_.size() == capacity_;
    const auto answer = policy_->Admit(layer_idx_, unit, pinned);
    log_ += fmt::format("{}{}{} ", unit, answer.is_admitted ? "+" : "-",
                        answer.leaves);
    if (!answer.is_admitted) {
      EXPECT_EQ(answer.leaves, kNobody);
      return;
    }
    EXPECT_EQ(answer.leaves != kNobody, was_full);
    EXPECT_FALSE(std::ranges::binary_search(others, answer.leaves));
    Move(unit, answer.leaves);
  }

  void Propose(size_t most) {
    const auto moves = policy_->Propose(layer_idx_, most);
    EXPECT_LE(moves.size(), most);
    for (const auto& move : moves) {
      log_ += fmt::format("{}<{} ", move.unit, move.leaves);
      EXPECT_EQ(move.leaves != kNobody, residents_.size() == capacity_);
      Move(move.unit, move.leaves);
    }
  }

  void Move(uint32_t unit, uint32_t leaves) {
    EXPECT_LT(unit, num_units_);
    EXPECT_FALSE(used_.contains(leaves));
    if (leaves != kNobody) {
      EXPECT_EQ(residents_.erase(leaves), 1u);
      EXPECT_FALSE(policy_->IsResident(layer_idx_, leaves));
    }
    EXPECT_TRUE(residents_.insert(unit).second);
    EXPECT_LE(residents_.size(), capacity_);
    used_.insert(unit);
  }

  void ExpectSame() {
    EXPECT_EQ(policy_->num_resident(layer_idx_), residents_.size());
    EXPECT_EQ(ResidentsOf(*policy_, layer_idx_, num_units_),
              Units(residents_.begin(), residents_.end()));
  }

  Policy* policy_;
  size_t layer_idx_;
  uint32_t num_units_;
  size_t capacity_;
  std::set<uint32_t> residents_;
  std::set<uint32_t> used_;  // may not leave
  std::string log_;          // all that was answered
};

std::string RunChecked(std::string_view name, uint64_t seed) {
  Random random(seed);
  const RandomLayers layers(random);
  const auto policy = Make(name, layers.extents());
  std::vector<CheckedLayer> checked;
  for (size_t l = 0; l < layers.extents().size(); ++l) {
    checked.emplace_back(policy.get(), l, layers.extents()[l]);
    if (seed % 3 != 0) checked.back().Begin();
  }
  for (int pass = 0; pass < 60; ++pass) {
    for (CheckedLayer& layer : checked) layer.Pass(random);
  }
  std::string log;
  for (const CheckedLayer& layer : checked) log += layer.log() + "\n";
  return log;
}

TEST(Policy, KeepsItsWordOverRandomPasses) {
  for (const PolicyInfo& info : Policies()) {
    for (uint64_t seed = 1; seed <= 12; ++seed) {
      SCOPED_TRACE(fmt::format("{}, seed {}", info.name, seed));
      const std::string log = RunChecked(info.name, seed);
      EXPECT_EQ(log, RunChecked(info.name, seed));
      if (HasFailure()) return;
    }
  }
}

TEST(Policy, WhoIsUsedNowDoesNotLeave) {
  for (const PolicyInfo& info : Policies()) {
    const auto policy = Make(info.name, {{4, 2, {}}});
    EXPECT_EQ(policy->Initial(0), (Units{0, 1}));
    policy->Observe(0, OwnedSet(4, {0, 1, 2}).set());
    EXPECT_FALSE(policy->Admit(0, 2, {}).is_admitted) << info.name;
  }
}

TEST(Policy, AMistakeOfTheCallerIsAnEnd) {
  for (const PolicyInfo& info : Policies()) {
    const auto policy = Make(info.name, {{4, 2, {}}});
    policy->Initial(0);
    EXPECT_DEATH(policy->Initial(0), "check failed") << info.name;
    EXPECT_DEATH(policy->Admit(0, 0, {}), "check failed") << info.name;
    EXPECT_DEATH(policy->Admit(0, 4, {}), "check failed") << info.name;
    EXPECT_DEATH(policy->Propose(1, 1), "check failed") << info.name;
    EXPECT_DEATH(policy->Observe(0, OwnedSet(5).set()), "check failed")
        << info.name;
  }
}

TEST(Policy, IsMadeByName) {
  std::set<std::string_view> names;
  for (const PolicyInfo& info : Policies()) {
    EXPECT_TRUE(MakePolicy(info.name, {}).has_value()) << info.name;
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_FALSE(info.text.empty()) << info.name;
  }
  const auto none = MakePolicy("fifo", {});
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(none.error().message,
              ::testing::HasSubstr("\"fifo\"; there are static, "));
}

TEST(Policy, RefusesFrequenciesThatAreNone) {
  const std::vector<float> good = {1.0f, 0.0f};
  for (const float bad : {-0.1f, std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    const std::vector<float> frequency = {0.5f, bad};
    const auto policy = MakePolicy("lru", {{2, 1, good}, {2, 1, frequency}});
    ASSERT_FALSE(policy.has_value()) << bad;
    EXPECT_EQ(policy.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(policy.error().message,
                ::testing::HasSubstr("layer 1: the frequency of unit 1"));
  }
  const auto policy = MakePolicy("lru", {{3, 1, good}});
  ASSERT_FALSE(policy.has_value());
  EXPECT_THAT(policy.error().message,
              ::testing::HasSubstr("3 units, but 2 frequencies"));
}

}  // namespace
}  // namespace thermocline::residency
