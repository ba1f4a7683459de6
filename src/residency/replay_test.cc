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
  EXPECT_EQ(replay.layers[0], TallyOf(6, 3, 3, 3, 0));
  EXPECT_EQ(replay.layers[1], TallyOf(3, 0, 0, 0, 0));
  EXPECT_EQ(replay.total(), TallyOf(9, 3, 3, 3, 0));
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
  EXPECT_EQ(replayer.replay().layers[0], TallyOf(5, 1, 4, 4, 2));
}

// Misses are computed elsewhere: nobody is admitted, and two layers share what
// may move, whose odd one falls to the last.
TEST(Replay, WhereMissesAreComputedOnlyMovesCome) {
  const std::vector<LayerExtent> layers = {{6, 3, {}}, {6, 3, {}}};
  const auto policy = Make("lru", layers);
  Replayer replayer(policy.get(), layers,
                    {.misses = Misses::kComputed, .moves_per_token = 3});
  replayer.Add(std::vector<Units>{{3, 4, 5}, {3, 4, 5}});
  EXPECT_EQ(ResidentsOf(*policy, 0, 6).back(), 3u);
  EXPECT_EQ(ResidentsOf(*policy, 1, 6).back(), 4u);
  const auto& tallies = replayer.replay().layers;
  EXPECT_EQ(tallies[0].moves, 1u);
  EXPECT_EQ(tallies[1].moves, 2u);
  EXPECT_EQ(tallies[1].hits + tallies[1].admissions, 0u);
  EXPECT_EQ(tallies[1].evictions, 2u);
  // What the first layer leaves is the second's.
  replayer.Add(std::vector<Units>{{3}, {0, 1, 2}});
  EXPECT_EQ(tallies[0].moves, 1u);
  EXPECT_EQ(tallies[0].hits, 1u);
  EXPECT_EQ(tallies[1].hits, 1u);
  EXPECT_EQ(tallies[1].moves, 4u);
  EXPECT_EQ(tallies[1].wasted, 2u);  // 3 and 4 were not used again
}

// Groups of 3, of which the last has 1.
TEST(Replay, CountsTheMembersOfGroups) {
  LayerExtent extent = {3, 1, {}};
  extent.members_per_unit = 3;
  extent.num_members = 7;
  const auto policy = Make("lru", {extent});
  Replayer replayer(policy.get(), {extent});
  for (const Units& used : ParsePasses("0 2 4|4 6|3 4 5|1")) {
    replayer.Add(std::vector<Units>{used});
  }
  // Hits 0, none, 1 or 2 with it, none. Comes nobody, 1, nobody, 0.
  const Tally expected = {.accesses = 6,
                          .hits = 2,
                          .admissions = 2,
                          .evictions = 2,
                          .fetched_members = 6,
                          .idle_members = 4,
                          .member_accesses = 9,
                          .member_hits = 5};
  EXPECT_EQ(replayer.replay().total(), expected);
  EXPECT_EQ(replayer.replay().misses, (Units{1, 2, 0, 1}));
}

// The same groups: 2, of one member, comes and leaves unused for 1, of which
// two members come beside the one that was read, and which 0 leaves unused too.
TEST(Replay, WhatComesWithAGroupMovesAndIsWastedByItsMembers) {
  LayerExtent extent = {3, 1, {}};
  extent.members_per_unit = 3;
  extent.num_members = 7;
  const auto policy = Make("lru", {extent});
  Units moved;
  ReplayOptions options;
  options.seconds = [&](const PassCounts& counts) {
    moved.push_back(counts.moves);
    return 0.0;
  };
  Replayer replayer(policy.get(), {extent}, options);
  for (const Units& used : ParsePasses("6|4|0 1|2")) {
    replayer.Add(std::vector<Units>{used});
  }
  EXPECT_EQ(moved, (Units{0, 2, 1, 0}));
  const Tally total = replayer.replay().total();
  EXPECT_EQ(total.wasted, 2u);
  EXPECT_EQ(total.wasted_members, 4u);
  EXPECT_EQ(total.fetched_members, 7u);
}

// Told of each pass before the layer's next one, and asked for its seconds.
TEST(Replay, TellsWhatThePassWaitedFor) {
  const std::vector<LayerExtent> layers = {{3, 1, {}}, {3, 3, {}}};
  const auto policy = Make("lru", layers);
  std::vector<std::string> told;
  ReplayOptions options = {.misses = Misses::kComputed, .moves_per_token = 2};
  options.bottleneck = [&](const PassCounts& counts) {
    told.push_back(fmt::format("{}: {} {} {}", counts.layer_idx, counts.hits,
                               counts.misses, counts.moves));
    return Bottleneck::kNothing;
  };
  options.seconds = [](const PassCounts& counts) {
    return counts.misses + 0.5;
  };
  Replayer replayer(policy.get(), layers, options);
  for (const uint32_t unit : {0u, 2u}) {
    replayer.Add(std::vector<Units>{{unit, 1}, {1}});
  }
  EXPECT_EQ(told, (std::vector<std::string>{"0: 1 1 0", "1: 1 0 0", "0: 0 2 1",
                                            "1: 1 0 0"}));
  EXPECT_EQ(replayer.replay().seconds, (std::vector<double>{2.0, 3.0}));
  EXPECT_DOUBLE_EQ(replayer.replay().mean_seconds(), 2.5);
  EXPECT_DOUBLE_EQ(replayer.replay().SecondsAt(0.99), 3.0);
}

// What is not counted changes who is resident as a pass does; a lesson without
// moves, and nobody is told of it.
TEST(Replay, CountsPassesAlone) {
  const std::vector<LayerExtent> layers = {{6, 2, {}}};
  const auto run = [&](Step first, std::vector<std::string>& told) {
    const auto policy = Make("lru", layers);
    ReplayOptions options = {.misses = Misses::kComputed, .moves_per_token = 1};
    options.bottleneck = [&](const PassCounts& counts) {
      told.push_back(std::to_string(counts.misses));
      return Bottleneck::kNothing;
    };
    Replayer replayer(policy.get(), layers, options);
    replayer.Add(std::vector<Units>{{4}}, first);
    EXPECT_EQ(replayer.replay().misses.size(), first == Step::kPass ? 1u : 0u);
    replayer.Add(std::vector<Units>{{4, 5}});
    return replayer.replay();
  };
  using Counts = std::vector<uint64_t>;
  const auto counts_of = [](const Replay& replay) {
    const Tally total = replay.total();
    return Counts{total.accesses, total.hits, total.moves, total.evictions};
  };
  std::vector<std::string> told;
  const Replay passes = run(Step::kPass, told);
  EXPECT_EQ(counts_of(passes), (Counts{3, 1, 2, 2}));
  EXPECT_EQ(told, (std::vector<std::string>{"1", "1"}));
  const Replay uncounted = run(Step::kUncounted, told);
  EXPECT_EQ(counts_of(uncounted), (Counts{2, 1, 1, 1}));
  EXPECT_EQ(uncounted.misses, (Units{1}));
  told.clear();
  const Replay lesson = run(Step::kLesson, told);
  EXPECT_EQ(counts_of(lesson), (Counts{2, 0, 1, 1}));
  EXPECT_EQ(told, (std::vector<std::string>{"2"}));
}

// As the engine offers whom rows of a prompt used (StreamedStore::LearnRows).
TEST(Replay, ALessonAdmits) {
  const std::vector<LayerExtent> layers = {{4, 1, {}}};
  const auto policy = Make("lru", layers);
  Replayer replayer(policy.get(), layers);
  replayer.Add(std::vector<Units>{{2}}, Step::kLesson);
  EXPECT_EQ(replayer.replay().total(), Tally());
  replayer.Add(std::vector<Units>{{3}});
  // 2 came and left without a use since: the pass wasted it.
  EXPECT_EQ(replayer.replay().total(), TallyOf(1, 0, 1, 1, 1));
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
