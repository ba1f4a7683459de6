#include "cli/simulate_units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "model/test_split.h"
#include "os/test_folder.h"
#include "planner/neuron_groups.h"

namespace thermocline::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two layers of eight neurons of two experts. Even ones fire together, then odd
// ones.
class SimulateUnitsTest : public ::testing::Test {
 protected:
  neuron::TraceReader Write(uint64_t hash = 0) {
    neuron::TraceHeader header = {.num_layers = 2,
                                  .num_neurons = 8,
                                  .model_hash = hash,
                                  .num_experts = 2,
                                  .unit_bytes = {40, 80}};
    auto writer = neuron::TraceWriter::Create(path_, header);
    EXPECT_TRUE(writer) << writer.error().message;
    for (uint32_t t = 0; t < 6; ++t) {
      const neuron::TraceToken token = {.begins_sequence = t == 0};
      (*writer)->AddTokens({&token, 1});
      for (const size_t layer : {0, 1}) {
        const uint32_t odd = t % 2;
        (*writer)->AddSet(
            layer, std::vector<uint32_t>{odd, 2 + odd, 4 + odd, 6 + odd});
        (*writer)->AddExperts(layer, std::vector<uint32_t>{odd});
      }
    }
    EXPECT_TRUE((*writer)->Flush());
    EXPECT_TRUE((*writer)->Finish());
    auto reader = neuron::TraceReader::Open(path_);
    EXPECT_TRUE(reader) << reader.error().message;
    return *std::move(reader);
  }

  os::TestFolder folder_;
  std::string path_ = folder_ / "m.trace";
  const std::vector<std::vector<float>> none_ =
      std::vector<std::vector<float>>(2);
};

TEST_F(SimulateUnitsTest, Experts) {
  neuron::TraceReader reader = Write();
  const std::vector<std::vector<float>> frequency(
      2, {0.5f, 0.5f, 0.25f, 0.25f, 0, 0, 0, 0.5f});
  const auto all = DivideTrace(reader, {.by_experts = true}, frequency);
  ASSERT_TRUE(all) << all.error().message;
  const SimulatedUnits& units = all->front();
  EXPECT_THAT(units.member_bytes, ElementsAre(40.0, 80.0));
  EXPECT_THAT(units.frequency[0], ElementsAre(0.75f, 0.25f));
  EXPECT_THAT(units.num_used, ElementsAre(1u, 1u));
  EXPECT_EQ(units.Extents()[1].num_units, 2u);
  EXPECT_THAT(units.CapacitiesOf(120), ElementsAre(1, 1));
  neuron::TraceToken token;
  neuron::TraceSets fired;
  ASSERT_TRUE(reader.Next(token, fired));
  std::vector<std::vector<uint32_t>> sets;
  units.MapToken(reader, fired, sets);
  EXPECT_THAT(sets, ElementsAre(ElementsAre(0), ElementsAre(0)));
}

TEST_F(SimulateUnitsTest, NeuronsOfExpertsHaveTheirShareOfTheBytes) {
  const auto all = DivideTrace(Write(), {.group_sizes = {3}}, none_);
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_THAT(all->front().member_bytes, ElementsAre(10.0, 20.0));
  const auto extents = all->front().Extents();
  EXPECT_EQ(extents[0].num_units, 3u);  // the last one of two
  EXPECT_EQ(extents[0].members(), 8u);
  // Half of the bytes: 40 and 80, which hold one group of three each.
  EXPECT_THAT(all->front().CapacitiesOf(120), ElementsAre(1, 1));
  EXPECT_THAT(all->front().CapacitiesOf(240), ElementsAre(3, 3));
}

TEST_F(SimulateUnitsTest, GroupsOfThoseThatFireTogether) {
  for (const planner::Grouping by :
       {planner::Grouping::kGreedy, planner::Grouping::kMetis}) {
    if (by == planner::Grouping::kMetis && !planner::HasMetis()) continue;
    neuron::TraceReader reader = Write();
    const UnitOptions options = {
        .group_sizes = {1, 4}, .grouping = by, .groups_path = path_};
    const auto all = DivideTrace(reader, options, none_);
    ASSERT_TRUE(all) << all.error().message;
    ASSERT_EQ(all->size(), 2u);
    EXPECT_THAT((*all)[0].places, ElementsAre());
    neuron::TraceToken token;
    neuron::TraceSets fired;
    std::vector<std::vector<uint32_t>> sets;
    ASSERT_TRUE(reader.Next(token, fired));
    (*all)[1].MapToken(reader, fired, sets);
    for (const auto& set : sets) {
      ASSERT_EQ(set.size(), 4u);
      EXPECT_TRUE(std::ranges::is_sorted(set));
      EXPECT_EQ(set.front() / 4, set.back() / 4) << "one group";
    }
  }
}

TEST_F(SimulateUnitsTest, AGroupIsUsedWhenAnyOfItIs) {
  const std::vector<std::vector<float>> frequency(
      2, {0.5f, 0.5f, 0, 0, 1, 0.25f, 0.5f, 0});
  const auto all = DivideTrace(Write(), {.group_sizes = {2}}, frequency);
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_THAT(all->front().frequency[0], ElementsAre(0.75f, 0.0f, 1.0f, 0.5f));
}

TEST_F(SimulateUnitsTest, KairoxSplitFiles) {
  const std::string split =
      folder_.Write("split.gguf", model::TestOrder(2, 8).Bytes());
  const auto all = DivideTrace(Write(), {.split_path = split}, none_);
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->front().group_size, 2u);
  EXPECT_EQ(all->front().pattern.size(), 2u);
  ASSERT_EQ(all->front().places.size(), 2u);
  EXPECT_THAT(all->front().CapacitiesOf(60), ElementsAre(1, 0));
  // Its shares of the layers, 3 and 1 here, divide shares too.
  SimulatedUnits units = all->front();
  units.pattern = {0.75f, 0.25f};
  units.member_bytes = {10.0, 10.0};
  EXPECT_THAT(units.CapacitiesOfShare(0.5), ElementsAre(3, 1));
  EXPECT_THAT(units.CapacitiesOfShare(1.0), ElementsAre(4, 4));
  units.member_bytes.clear();
  EXPECT_THAT(units.CapacitiesOfShare(0.5), ElementsAre(3, 1));
  units.pattern.clear();
  EXPECT_THAT(units.CapacitiesOfShare(0.4), ElementsAre(2, 2));
}

TEST_F(SimulateUnitsTest, GroupsOfAnotherModelAreRefused) {
  const std::string mine = folder_ / "mine.trace";
  Write(1);
  std::filesystem::rename(path_, mine);
  auto reader = neuron::TraceReader::Open(mine);
  ASSERT_TRUE(reader);
  Write(2);
  const auto all = DivideTrace(
      *reader, {.grouping = planner::Grouping::kGreedy, .groups_path = path_},
      none_);
  ASSERT_FALSE(all);
  EXPECT_THAT(all.error().message, HasSubstr("is of another model"));
}

}  // namespace
}  // namespace thermocline::cli
