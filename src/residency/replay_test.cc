#include "residency/replay.h"

#include "residency/test_passes.h"

namespace thermocline::residency {
namespace {

TEST(Replay, CountsWhatAPolicyDoes) {
  const std::vector<LayerExtent> layers = {{4, 2, {}}, {3, 0, {}}};
  const auto policy = Make("lru", layers);
  Replayer replayer(policy.get(), layers);
  // Residents of layer 0: 0 1; 1 2; 2 3; 0 3.
  const std::vector<std::vector<Units>> tokens = {
      {{1, 2}, {0}}, {{2, 3}, {}}, {{0, 3}, {1, 2}}};
  for (const auto& sets : tokens) replayer.Add(sets);
  const Replay& replay = replayer.replay();
  ASSERT_EQ(replay.layers.size(), 2u);
  // 2 and 3 were used again before they left.
  EXPECT_EQ(replay.layers[0], (Tally{6, 3, 3, 3, 0}));
  EXPECT_EQ(replay.layers[1], (Tally{3, 0, 0, 0, 0}));
  EXPECT_EQ(replay.total(), (Tally{9, 3, 3, 3, 0}));
  EXPECT_EQ(replay.misses, (Units{2, 1, 3}));
  EXPECT_DOUBLE_EQ(replay.total().hit_share(), 1.0 / 3.0);
  EXPECT_DOUBLE_EQ(replay.mean_misses(), 2.0);
}

TEST(Replay, AnAdmissionThatEndsBeforeItsUseIsWasted) {
  const std::vector<LayerExtent> layers = {{3, 1, {}}};
  const auto policy = Make("lru", layers);
  Replayer replayer(policy.get(), layers);
  for (const uint32_t unit : {1u, 2u, 2u, 1u, 0u}) {
    replayer.Add(std::vector<Units>{{unit}});
  }
  // 1 leaves unused, 2 used; 1 again unused, 0 stays to the end.
  EXPECT_EQ(replayer.replay().layers[0], (Tally{5, 1, 4, 4, 2}));
}

TEST(Replay, PercentilesAreOfTokens) {
  Replay replay;
  EXPECT_EQ(replay.MissesAt(0.5), 0u);
  EXPECT_DOUBLE_EQ(replay.mean_misses(), 0.0);
  for (uint32_t i = 10; i > 0; --i) replay.misses.push_back(i);
  EXPECT_EQ(replay.MissesAt(0.5), 5u);
  EXPECT_EQ(replay.MissesAt(0.9), 9u);
  EXPECT_EQ(replay.MissesAt(0.91), 10u);
  EXPECT_EQ(replay.MissesAt(0.0), 1u);
  EXPECT_EQ(replay.MissesAt(1.0), 10u);
}

TEST(Replay, WhatDoesNotFitTheLayersIsAnEnd) {
  const std::vector<LayerExtent> layers = {{3, 1, {}}};
  const auto policy = Make("static", layers);
  Replayer replayer(policy.get(), layers);
  EXPECT_DEATH(replayer.Add({}), "check failed");
  EXPECT_DEATH(replayer.Add(std::vector<Units>{{3}}), "check failed");
}

}  // namespace
}  // namespace thermocline::residency
