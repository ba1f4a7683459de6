#include "residency/policy.h"

#include <gmock/gmock.h>

#include <limits>
#include <set>

#include "residency/test_passes.h"

namespace thermocline::residency {
namespace {

// Layers of many sizes and capacities: of none, one, some, all and more than
// there are; a mixture's few experts; groups, of which the last may be short;
// and what has no frequencies.
class RandomLayers {
 public:
  explicit RandomLayers(Random& random) {
    const struct {
      uint32_t units, capacity, members_per_unit, missing;
    } shapes[] = {{70, 0, 1, 0},  {70, 1, 1, 0},   {70, 7, 1, 0},
                  {64, 32, 1, 0}, {65, 65, 1, 0},  {8, 3, 1, 0},
                  {1, 1, 1, 0},   {9, 99, 1, 0},   {0, 4, 3, 0},
                  {23, 5, 3, 2},  {66, 30, 16, 7}, {1, 1, 130, 1}};
    for (const auto& shape : shapes) {
      std::vector<float>& frequency = frequencies_.emplace_back();
      for (uint32_t i = 0; i < shape.units; ++i) {
        frequency.push_back(random.Uniform(0.0f, 1.0f));
      }
      if (random.Below(4) == 0) frequency.clear();
      extents_.push_back({.num_units = shape.units,
                          .capacity = shape.capacity,
                          .frequency = {},
                          .members_per_unit = shape.members_per_unit,
                          .num_members = shape.units * shape.members_per_unit -
                                         shape.missing});
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
        num_members_(extent.members()),
        members_per_unit_(extent.members_per_unit),
        capacity_(std::min(extent.capacity, extent.num_units)) {}

  void Begin() {
    const Units units = policy_->Initial(layer_idx_);
    residents_.insert(units.begin(), units.end());
    ASSERT_EQ(residents_.size(), units.size());
    ASSERT_EQ(units.size(), capacity_);
    ExpectSame();
  }

  void Pass(Random& random) {
    const Units members = DrawUnits(random, num_members_, random.Uniform() / 2);
    const Units others = DrawUnits(random, num_units_, random.Uniform());
    OwnedSet pinned(num_units_, others);
    used_.clear();
    for (const uint32_t member : members) {
      used_.insert(member / members_per_unit_);
    }
    policy_->Tell(layer_idx_, static_cast<Bottleneck>(random.Below(3)));
    policy_->Observe(layer_idx_, OwnedSet(num_members_, members).set());
    for (const uint32_t unit : Units(used_.begin(), used_.end())) {
      if (residents_.contains(unit) || random.Below(8) == 0) continue;
      const bool pins = random.Below(2) == 0;
      Admit(unit, pins ? pinned.set() : neuron::NeuronSet{},
            pins ? others : Units{});
    }
    ExpectSame();
    Propose(random.Below(5));
    ExpectSame();
    if (random.Below(4) == 0) Drop(random);
    if (random.Below(4) == 0) Propose(random.Below(5));
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

  void Drop(Random& random) {
    if (residents_.empty()) return;
    const auto unit =
        std::next(residents_.begin(),
                  static_cast<ptrdiff_t>(random.Below(residents_.size())));
    policy_->Drop(layer_idx_, *unit);
    residents_.erase(unit);
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
  uint32_t num_members_;
  uint32_t members_per_unit_;
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
  for (int pass = 0; pass < 40; ++pass) {
    for (CheckedLayer& layer : checked) layer.Pass(random);
  }
  std::string log;
  for (const CheckedLayer& layer : checked) log += layer.log() + "\n";
  return log;
}

// Names, and what parameters make different.
std::vector<std::string> AllSpecs() {
  std::vector<std::string> specs = {
      "slow:half-life=1,margin=0", "macro-micro:lambda=5,phi=0.2,prior=0",
      "momentum:lambda=0,adapt=off", "momentum:tau=off,alpha=0.5"};
  for (const PolicyInfo& info : Policies()) specs.emplace_back(info.name);
  return specs;
}

TEST(Policy, KeepsItsWordOverRandomPasses) {
  for (const std::string& spec : AllSpecs()) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      SCOPED_TRACE(fmt::format("{}, seed {}", spec, seed));
      const std::string log = RunChecked(spec, seed);
      EXPECT_EQ(log, RunChecked(spec, seed));
      if (HasFailure()) return;
    }
  }
}

// A disk fails: the unit is not there, and may come again.
TEST(Policy, WhoIsDroppedIsMissing) {
  for (const PolicyInfo& info : Policies()) {
    const auto policy = Make(info.name, {{4, 2, {}}});
    policy->Initial(0);
    RunPass(*policy, 0, 4, {0});
    policy->Drop(0, 0);
    EXPECT_FALSE(policy->IsResident(0, 0)) << info.name;
    EXPECT_EQ(policy->num_resident(0), 1u) << info.name;
    EXPECT_DEATH(policy->Drop(0, 0), "check failed") << info.name;
    policy->Observe(0, OwnedSet(4, {0}).set());
    EXPECT_EQ(policy->Admit(0, 0, {}).is_admitted, info.name != "static");
  }
}

// Who only waits for misses proposes those of the last pass, each once.
TEST(Policy, ProposesWhoWasMissing) {
  for (const char* name :
       {"lru", "lfu", "two-queue", "window", "eager", "current"}) {
    const auto policy = Make(name, {{6, 3, {}}});
    policy->Observe(0, OwnedSet(6, {1, 2, 4, 5}).set());
    EXPECT_TRUE(policy->Admit(0, 4, {}).is_admitted) << name;
    const auto moves = policy->Propose(0, 1);
    ASSERT_EQ(moves.size(), 1u) << name;
    EXPECT_EQ(moves[0].unit, 1u) << name;
    policy->Drop(0, 1);
    EXPECT_EQ(policy->Propose(0, 9).size(), 2u) << name;
    EXPECT_EQ(ResidentsOf(*policy, 0, 6), (Units{2, 4, 5})) << name;
    policy->Observe(0, OwnedSet(6).set());
    EXPECT_TRUE(policy->Propose(0, 9).empty()) << name;
  }
}

// Of members (a group of 2, and a last one of 1) a unit is used with any.
TEST(Policy, AGroupIsUsedWithAnyOfItsMembers) {
  LayerExtent extent = {3, 2, {}};
  extent.members_per_unit = 2;
  extent.num_members = 5;
  const auto policy = Make("lru", {extent});
  policy->Initial(0);
  policy->Observe(0, OwnedSet(5, {1, 4}).set());
  EXPECT_EQ(policy->Admit(0, 2, {}).leaves, 1u);
  EXPECT_DEATH(policy->Observe(0, OwnedSet(6).set()), "check failed");
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

TEST(Policy, RefusesMembersThatMakeOtherUnits) {
  const struct {
    uint32_t units, members_per_unit, members;
    bool is_good;
  } rows[] = {{3, 4, 0, true},   {3, 4, 12, true},
              {3, 4, 9, true},   {3, 4, 8, false},
              {3, 4, 13, false}, {3, 0, 3, false},
              {0, 4, 1, false},  {1u << 20, 1u << 12, 0, false}};
  for (const auto& row : rows) {
    const LayerExtent extent = {.num_units = row.units,
                                .capacity = 1,
                                .frequency = {},
                                .members_per_unit = row.members_per_unit,
                                .num_members = row.members};
    const auto policy = MakePolicy("lru", {{2, 1, {}}, extent});
    ASSERT_EQ(policy.has_value(), row.is_good)
        << row.units << " " << row.members_per_unit << " " << row.members;
    if (row.is_good) continue;
    EXPECT_EQ(policy.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(policy.error().message, ::testing::HasSubstr("layer 1: "));
  }
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
