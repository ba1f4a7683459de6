#include "residency/compare.h"

#include <gmock/gmock.h>

#include <limits>

#include "residency/bounds.h"
#include "residency/test_passes.h"

namespace thermocline::residency {
namespace {

// The tokens of a vector, and then an end or an error.
NextToken Reading(const std::vector<std::vector<Units>>& tokens,
                  bool ends_well = true) {
  return [&tokens, ends_well, t = size_t{0}](
             std::vector<Units>& sets) mutable -> Result<std::optional<Step>> {
    if (t == tokens.size()) {
      if (ends_well) return std::nullopt;
      return Fail(ErrorCode::kCorrupt, "the end is missing");
    }
    sets = tokens[t++];
    return Step::kPass;
  };
}

std::vector<std::vector<Units>> DrawTokens() {
  Random random(5);
  std::vector<std::vector<Units>> tokens;
  for (int t = 0; t < 50; ++t) {
    tokens.push_back({DrawUnits(random, 40, 0.2), DrawUnits(random, 8, 0.3)});
  }
  return tokens;
}

TEST(Compare, EachCaseIsWhatItIsAlone) {
  const auto tokens = DrawTokens();
  const std::vector<LayerExtent> layers = {{40, 0, {}}, {8, 0, {}}};
  const std::vector<LayerExtent> half = {{40, 20, {}}, {8, 4, {}}};
  const auto replays = ReplayCases(
      layers, {{"lru", 0.5}, {"belady", 0.5}, {"lru", 1.0}, {"static", 0.0}},
      Reading(tokens));
  ASSERT_TRUE(replays.has_value());
  ASSERT_EQ(replays->size(), 4u);

  const auto policy = Make("lru", half);
  Replayer replayer(policy.get(), half);
  Recording recording(2);
  for (const auto& sets : tokens) {
    replayer.Add(sets);
    recording.Add(sets);
  }
  EXPECT_EQ((*replays)[0].layers, replayer.replay().layers);
  EXPECT_EQ((*replays)[0].misses, replayer.replay().misses);
  EXPECT_EQ((*replays)[1].layers, Belady(recording, half).layers);
  EXPECT_EQ((*replays)[2].total().misses(), 0u);
  EXPECT_EQ((*replays)[3].total().hits, 0u);
}

TEST(Compare, OptionsAreForAllCases) {
  const auto tokens = DrawTokens();
  const std::vector<LayerExtent> layers = {{40, 0, {}}, {8, 0, {}}};
  ReplayOptions options = {.misses = Misses::kComputed, .moves_per_token = 4};
  options.seconds = [](const PassCounts& counts) { return counts.misses; };
  const std::vector<Case> cases = {{"slow:half-life=8,margin=0", 0.5},
                                   {"momentum:tau=off", 0.5},
                                   {"oracle-static", 0.5},
                                   {"belady", 0.5}};
  const auto replays = ReplayCases(layers, cases, Reading(tokens), options);
  ASSERT_TRUE(replays.has_value()) << replays.error().message;
  for (size_t i = 0; i < cases.size(); ++i) {
    const Replay& replay = (*replays)[i];
    EXPECT_EQ(replay.total().admissions, 0u) << cases[i].name;
    EXPECT_LE(replay.total().moves, 4 * tokens.size()) << cases[i].name;
    EXPECT_EQ(replay.total().moves == 0, cases[i].name == "oracle-static");
    EXPECT_DOUBLE_EQ(replay.mean_seconds(), replay.mean_misses());
    EXPECT_GE((*replays)[3].total().hits, replay.total().hits);
  }
}

// Policies learn from all steps, bounds hear of those that are counted.
TEST(Compare, StepsAreWhatTheyAreToPolicies) {
  const auto tokens = DrawTokens();
  const std::vector<LayerExtent> layers = {{40, 0, {}}, {8, 0, {}}};
  const std::vector<LayerExtent> half = {{40, 20, {}}, {8, 4, {}}};
  const ReplayOptions options = {.moves_per_token = 3};
  const auto step_of = [](size_t t) { return static_cast<Step>(t % 3); };
  const auto replays = ReplayCases(
      layers, {{"slow", 0.5}, {"belady", 0.5}},
      [&, t = size_t{0}](
          std::vector<Units>& sets) mutable -> Result<std::optional<Step>> {
        if (t == tokens.size()) return std::nullopt;
        sets = tokens[t];
        return step_of(t++);
      },
      options);
  ASSERT_TRUE(replays.has_value());
  const auto policy = Make("slow", half);
  Replayer replayer(policy.get(), half, options);
  Recording recording(2);
  for (size_t t = 0; t < tokens.size(); ++t) {
    replayer.Add(tokens[t], step_of(t));
    if (step_of(t) == Step::kPass) recording.Add(tokens[t]);
  }
  EXPECT_EQ((*replays)[0].layers, replayer.replay().layers);
  EXPECT_EQ((*replays)[0].misses.size(), recording.num_tokens());
  EXPECT_EQ((*replays)[1].layers, Belady(recording, half, options).layers);
}

TEST(Compare, ErrorsComeThrough) {
  const auto tokens = DrawTokens();
  const std::vector<LayerExtent> layers = {{40, 0, {}}, {8, 0, {}}};
  const struct {
    Case one;
    bool ends_well;
    const char* message;
  } rows[] = {
      {{"fifo", 0.5}, true, "no policy is called \"fifo\""},
      {{"slow:half-life=0", 0.5}, true, "half-life is \"0\": it is from 1 to"},
      {{"belady:x=1", 0.5}, true, "no policy is called \"belady\""},
      {{"lru", 1.5}, true, "a capacity of 1.5 of the units"},
      {{"lru", std::numeric_limits<double>::quiet_NaN()}, true, "of nan of"},
      {{"lru", 0.5}, false, "the end is missing"},
  };
  for (const auto& row : rows) {
    const auto replays =
        ReplayCases(layers, {row.one}, Reading(tokens, row.ends_well));
    ASSERT_FALSE(replays.has_value()) << row.message;
    EXPECT_THAT(replays.error().message, ::testing::HasSubstr(row.message));
  }
}

TEST(Compare, BoundsHaveNamesOfTheirOwn) {
  for (const PolicyInfo& bound : Bounds()) {
    EXPECT_FALSE(MakePolicy(bound.name, {}).has_value()) << bound.name;
    const auto replays = ReplayCases(
        {{3, 0, {}}}, {{std::string(bound.name), 0.4}},
        [](auto&) -> Result<std::optional<Step>> { return std::nullopt; });
    ASSERT_TRUE(replays.has_value()) << bound.name;
    EXPECT_EQ((*replays)[0].total().hit_share(), 0.0);
  }
}

}  // namespace
}  // namespace thermocline::residency
