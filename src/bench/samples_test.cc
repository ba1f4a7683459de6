#include "bench/samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace thermocline::bench {
namespace {

using ::testing::ElementsAre;

TEST(SamplesTest, MomentsAndMedian) {
  const std::vector<double> samples = {4.0, 1.0, 1.0};
  EXPECT_DOUBLE_EQ(MomentsOf(samples).mean, 2.0);
  EXPECT_DOUBLE_EQ(MomentsOf(samples).stddev, std::sqrt(3.0));
  EXPECT_DOUBLE_EQ(MomentsOf(std::vector{7.0}).stddev, 0.0);
  EXPECT_DOUBLE_EQ(MedianOf(samples), 1.0);
  EXPECT_DOUBLE_EQ(MedianOf({4.0, 1.0, 3.0, 2.0}), 2.5);
}

TEST(ChooseRepetitionsTest, DropsThoseWithSlowProbes) {
  const std::vector<double> rates = {20.0, 16.9, 17.0, 19.0, 3.0};
  EXPECT_EQ(NumUndisturbed(rates, 20.0), 3u);
  EXPECT_THAT(ChooseRepetitions(rates, 20.0, 5), ElementsAre(0, 2, 3));
}

TEST(ChooseRepetitionsTest, KeepsTheBestThreeOfABusyRun) {
  const std::vector<double> rates = {5.0, 9.0, 7.0, 8.0};
  EXPECT_EQ(NumUndisturbed(rates, 20.0), 0u);
  EXPECT_THAT(ChooseRepetitions(rates, 20.0, 5), ElementsAre(1, 2, 3));
  EXPECT_THAT(ChooseRepetitions(rates, 20.0, 2), ElementsAre(1, 3));
  EXPECT_THAT(ChooseRepetitions(rates, 20.0, 1), ElementsAre(1));
}

// Of the best rate of 10, one below 8.5 is disturbed.
TEST(NeedsMoreTest, MakesUpForWhatWasDisturbed) {
  const struct {
    std::vector<double> rates;
    bool needs_more;
  } cases[] = {{{}, true},
               {{10}, true},
               {{10, 9}, false},
               {{10, 8}, true},
               {{10, 8, 9}, false},
               {{10, 8, 8}, true},
               {{10, 8, 8, 8}, false}};
  for (const auto& c : cases) {
    EXPECT_EQ(NeedsMore(c.rates, 10.0, 2), c.needs_more) << c.rates.size();
  }
}

TEST(PercentilesOfTest, TakesTheNearestRank) {
  std::vector<double> samples;
  for (int i = 100; i > 0; --i) samples.push_back(i);
  const double shares[] = {0.5, 0.9, 0.99, 0.0, 1.0};
  EXPECT_EQ(PercentilesOf(samples, shares),
            (std::vector<double>{50, 90, 99, 1, 100}));
  EXPECT_EQ(PercentilesOf({3, 1, 2}, shares),
            (std::vector<double>{2, 3, 3, 1, 3}));
  EXPECT_EQ(PercentilesOf({7}, shares), std::vector<double>(5, 7));
}

}  // namespace
}  // namespace thermocline::bench
