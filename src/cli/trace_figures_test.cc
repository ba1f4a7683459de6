#include "cli/trace_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "cli/test_trace_file.h"
#include "os/test_folder.h"

namespace thermocline::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class TraceFiguresTest : public ::testing::Test {
 protected:
  os::TestFolder folder_;
  std::string path_ = folder_ / "m.trace";
};

// By hand; what the builders count has tests of its own.
TEST_F(TraceFiguresTest, OfATinyTrace) {
  WriteTinyTrace(path_);
  const auto report = ReadTrace(path_, {});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->neurons.profile.num_tokens(), 5u);
  const neuron::LayerDynamics& layer = report->neurons.layers.front();
  EXPECT_EQ(layer.num_hot, 1u);
  EXPECT_DOUBLE_EQ(*layer.jaccard.value(), (1.0 / 2 + 1.0 / 3) / 3);
  EXPECT_FALSE(report->neurons.texts.front().value());
  EXPECT_DOUBLE_EQ(*report->neurons.TenthOfAll(0).at(1), 1.0);
  EXPECT_DOUBLE_EQ(*report->neurons.TenthOfAll(2).at(1), 0.0);
  EXPECT_FALSE(report->experts);
  EXPECT_THAT(report->texts.names, IsEmpty());
  ASSERT_THAT(report->named, SizeIs(1));
  EXPECT_FALSE(report->named[0].lookahead);
  EXPECT_DOUBLE_EQ(*report->named[0].total().recall(), 6.0 / 7);
  EXPECT_DOUBLE_EQ(*report->named[0].total().precision(), 6.0 / 7);
  ASSERT_THAT(report->series, SizeIs(1));
  std::vector<std::pair<uint32_t, uint32_t>> hot_and_cold;
  for (const neuron::ActiveCounts& token : report->series[0].tokens) {
    hot_and_cold.emplace_back(token.hot, token.cold);
  }
  EXPECT_THAT(hot_and_cold, ElementsAre(std::pair(1u, 1u), std::pair(1u, 0u),
                                        std::pair(1u, 2u), std::pair(0u, 0u),
                                        std::pair(1u, 0u)));
  EXPECT_THAT(report->series_begins, ElementsAre(0, 3));
}

TEST_F(TraceFiguresTest, OfAMixture) {
  WriteMixtureTrace(path_);
  const auto report = ReadTrace(path_, {});
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_TRUE(report->experts);
  EXPECT_THAT(report->experts->profile.layers[0].counts,
              ElementsAre(9, 9, 0, 18));
  // {0, 3} and {1, 3} by turns.
  EXPECT_DOUBLE_EQ(*report->experts->layers[0].jaccard.value(), 1.0 / 3);
  // Expert 0 or 1, tenth 2 or 5 of four, fires each second token.
  EXPECT_DOUBLE_EQ(*report->experts->TenthOfAll(0).at(1), 1.0);
  EXPECT_DOUBLE_EQ(*report->experts->TenthOfAll(2).at(1), 0.0);
  EXPECT_DOUBLE_EQ(*report->experts->TenthOfAll(2).at(2), 1.0);
  // Of eight neurons two are hot: 7, and 0 or 2, whichever is used once more.
  EXPECT_THAT(report->texts.names, ElementsAre("a:1", "a:2"));
  EXPECT_DOUBLE_EQ(*report->texts.jaccard[0][0], 1.0);
  EXPECT_DOUBLE_EQ(*report->texts.jaccard[0][1], 1.0 / 3);
  EXPECT_DOUBLE_EQ(*report->neurons.texts[0].value(), 1.0 / 3);
  ASSERT_THAT(report->named, SizeIs(1));
  EXPECT_EQ(report->named[0].lookahead, 0u);
  EXPECT_DOUBLE_EQ(*report->named[0].total().recall(), 0.5);
}

// Names stay with the texts that are compared: not with short ones, nor with
// those of many that are left out. Those of old files are made up.
TEST_F(TraceFiguresTest, NamesOfTextsThatAreCompared) {
  std::vector<TestToken> tokens;
  for (const size_t length : {3, 8, 1, 2, 9, 8}) {
    for (size_t t = 0; t < length; ++t) {
      tokens.push_back({.begins = t == 0, .fired = {0}});
    }
  }
  WriteTestTrace(path_, {.num_layers = 1, .num_neurons = 2}, tokens);
  EXPECT_THAT(ReadTrace(path_, {})->texts.names,
              ElementsAre("a:2", "a:5", "a:6"));
}

// A few layers, of the first tokens.
TEST_F(TraceFiguresTest, SeriesAreBounded) {
  const neuron::TraceHeader header = {.num_layers = 7, .num_neurons = 3};
  auto writer = neuron::TraceWriter::Create(path_, header);
  ASSERT_TRUE(writer);
  const size_t count = ActivitySeries::kMaxTokens + 5;
  for (size_t t = 0; t < count; ++t) {
    const neuron::TraceToken token = {.begins_sequence = t % 500 == 0};
    (*writer)->AddTokens({&token, 1});
    for (uint32_t l = 0; l < 7; ++l) {
      (*writer)->AddSet(l, std::vector<uint32_t>{l % 3});
    }
    ASSERT_TRUE((*writer)->Flush());
  }
  ASSERT_TRUE((*writer)->Finish());
  const auto report = ReadTrace(path_, {});
  ASSERT_TRUE(report);
  std::vector<size_t> layers;
  for (const ActivitySeries& series : report->series) {
    layers.push_back(series.layer_idx);
    EXPECT_THAT(series.tokens, SizeIs(ActivitySeries::kMaxTokens));
  }
  EXPECT_THAT(layers, ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(report->series_begins, ElementsAre(0, 500));
}

TEST_F(TraceFiguresTest, RefusesWhatCannotBeCounted) {
  const std::string path = folder_ / "large.trace";
  // Of all layers together; the least that is refused, and far more.
  for (const auto& [num_layers, num_neurons] :
       {std::pair(uint32_t{1}, (uint32_t{1} << 26) + 1),
        std::pair(uint32_t{1} << 13, (uint32_t{1} << 13) + 1),
        std::pair(uint32_t{1}, uint32_t{1} << 31)}) {
    auto writer = neuron::TraceWriter::Create(
        path, {.num_layers = num_layers, .num_neurons = num_neurons});
    ASSERT_TRUE(writer);
    ASSERT_TRUE((*writer)->Finish());
    const auto report = ReadTrace(path, {});
    ASSERT_FALSE(report);
    EXPECT_THAT(report.error().message, HasSubstr("too many to count"));
  }
}

}  // namespace
}  // namespace thermocline::cli
