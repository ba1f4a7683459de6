#include "engine/stream/live_policy.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "engine/testing/test_residents.h"
#include "engine/testing/test_restless_policy.h"
#include "residency/policy.h"

namespace thermocline::engine {
namespace {

using residency::Bottleneck;
using residency::kNobody;
using residency::LayerExtent;
using testing::RestlessPolicy;

const std::vector<LayerExtent> kLiveLayers = {{.num_units = 70, .capacity = 20},
                                              {.num_units = 70, .capacity = 70},
                                              {.num_units = 129, .capacity = 1},
                                              {.num_units = 3, .capacity = 2}};

std::vector<std::vector<uint32_t>> DrawUses(Random& random) {
  std::vector<std::vector<uint32_t>> uses;
  for (const LayerExtent& layer : kLiveLayers) {
    std::vector<uint32_t>& units = uses.emplace_back();
    for (uint32_t unit = 0; unit < layer.num_units; ++unit) {
      // Some are used again and again.
      if (random.Below(unit % 5 == 0 ? 2 : 9) == 0) units.push_back(unit);
    }
  }
  return uses;
}

// As those who read do it.
void RunLive(LivePolicy& live, size_t layer_idx,
             const std::vector<uint32_t>& units) {
  std::vector<uint64_t> words(
      neuron::WordsOf(kLiveLayers[layer_idx].num_units));
  const neuron::NeuronSet used = {words.data(),
                                  kLiveLayers[layer_idx].num_units};
  for (const uint32_t unit : units) used.Add(unit);
  live.BeginRun();
  live.Observe(layer_idx, used);
  for (const uint32_t unit : units) {
    if (!live.Has(layer_idx, unit)) live.Admit(layer_idx, unit, used);
  }
  live.EndRun(layer_idx, {});
  live.Propose(layer_idx, false);
}

TEST(LivePolicyTest, DoesWhatAReplayDoes) {
  for (const std::string& spec : testing::PolicySpecs()) {
    for (const uint64_t moves_per_token : {0, 1, 3, 50}) {
      SCOPED_TRACE(spec + " " + std::to_string(moves_per_token));
      StreamTotals::OfPhase counts;
      LivePolicy live(
          testing::MakeTestPolicy(spec, kLiveLayers).value(), kLiveLayers,
          {.deterministic = true, .moves_per_token = moves_per_token}, &counts);
      for (size_t l = 0; l < kLiveLayers.size(); ++l) live.Initial(l);
      testing::ReplayBeside replay(spec, live);
      Random random(moves_per_token + 1);
      for (int token = 0; token < 60; ++token) {
        const auto uses = DrawUses(random);
        const StreamTotals::OfPhase before = counts;
        for (size_t l = 0; l < uses.size(); ++l) {
          RunLive(live, l, uses[l]);
          counts.num_wanted += uses[l].size();
        }
        live.EndPass();
        replay.ExpectSame(uses, live, before, counts);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(LivePolicyTest, MovesAreSharedOut) {
  EXPECT_EQ(FixedMovesPerToken({{.num_units = 10, .capacity = 3}}), 1u);
  EXPECT_EQ(FixedMovesPerToken({{.num_units = 1000, .capacity = 768},
                                {.num_units = 256, .capacity = 1000}}),
            4u);
  StreamTotals::OfPhase counts;
  LivePolicy live(std::make_unique<RestlessPolicy>(kLiveLayers, 3), kLiveLayers,
                  {.deterministic = true, .moves_per_token = 8}, &counts);
  for (size_t l = 0; l < kLiveLayers.size(); ++l) live.Initial(l);
  for (int pass = 0; pass < 50; ++pass) {
    const uint64_t before = counts.num_moves;
    for (size_t l = 0; l < kLiveLayers.size(); ++l) {
      RunLive(live, l, {});
      EXPECT_LE(counts.num_moves - before, 2 * (l + 1));
    }
    live.EndPass();
  }
  EXPECT_GT(counts.num_moves, 100u);
}

// Records what it is told.
class ToldPolicy final : public residency::Policy {
 public:
  explicit ToldPolicy(std::vector<Bottleneck>* told) : told_(*told) {}
  std::vector<uint32_t> Initial(size_t) override { return {}; }
  void Observe(size_t, const neuron::NeuronSet&) override {}
  Answer Admit(size_t, uint32_t, const neuron::NeuronSet&) override {
    return {};
  }
  std::vector<Move> Propose(size_t, size_t) override { return {}; }
  void Drop(size_t, uint32_t) override {}
  void Tell(size_t, Bottleneck what) override { told_.push_back(what); }
  bool IsResident(size_t, uint32_t) const override { return false; }
  size_t num_resident(size_t) const override { return 0; }

 private:
  std::vector<Bottleneck>& told_;
};

TEST(LivePolicyTest, TellsWhatTheLastRunWaitedFor) {
  std::vector<Bottleneck> told;
  StreamTotals::OfPhase counts;
  LivePolicy live(std::make_unique<ToldPolicy>(&told), kLiveLayers, {},
                  &counts);
  std::vector<uint64_t> words(neuron::WordsOf(70));
  const neuron::NeuronSet used = {words.data(), 70};
  const RunTimes waits[] = {{.for_misses = 2e-3, .for_moves = 1e-3},
                            {.for_misses = 1e-3, .for_moves = 2e-3},
                            {}};
  for (const RunTimes& times : waits) {
    live.BeginRun();
    live.Observe(0, used);
    live.EndRun(0, times);
    live.Propose(0, false);
  }
  EXPECT_EQ(told,
            (std::vector<Bottleneck>{Bottleneck::kMisses, Bottleneck::kMoves,
                                     Bottleneck::kNothing}));
}

TEST(LivePolicyTest, ChecksLeaveNoTrace) {
  StreamTotals::OfPhase counts;
  LivePolicy live(std::make_unique<RestlessPolicy>(kLiveLayers, 3), kLiveLayers,
                  {.deterministic = true, .moves_per_token = 8}, &counts);
  for (size_t l = 0; l < kLiveLayers.size(); ++l) live.Initial(l);
  const testing::Residents at_first = testing::ResidentsOf(live);
  live.set_rests(true);
  for (size_t l = 0; l < kLiveLayers.size(); ++l) RunLive(live, l, {0, 2});
  live.EndPass();
  EXPECT_EQ(testing::ResidentsOf(live), at_first);
  EXPECT_EQ(counts, StreamTotals::OfPhase());
  live.set_rests(false);
  for (size_t l = 0; l < kLiveLayers.size(); ++l) RunLive(live, l, {0, 2});
  EXPECT_NE(testing::ResidentsOf(live), at_first);
}

TEST(LivePolicyTest, WhoIsDroppedIsGone) {
  StreamTotals::OfPhase counts;
  LivePolicy live(residency::MakePolicy("lru", kLiveLayers).value(),
                  kLiveLayers, {}, &counts);
  for (size_t l = 0; l < kLiveLayers.size(); ++l) live.Initial(l);
  ASSERT_TRUE(live.Has(0, 7));
  live.Drop(0, 7);
  EXPECT_FALSE(live.Has(0, 7));
  RunLive(live, 0, {7, 8});
  EXPECT_TRUE(live.Has(0, 7));
  EXPECT_EQ(counts.num_hits, 1u);
  EXPECT_EQ(counts.num_admissions, 1u);
  EXPECT_EQ(counts.num_wasted, 0u);
}

}  // namespace
}  // namespace thermocline::engine
