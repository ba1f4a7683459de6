#include "eval/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace thermocline::eval {
namespace {

TEST(MomentsTest, KnownAnswers) {
  Moments moments;
  EXPECT_EQ(moments.mean(), 0.0);
  EXPECT_EQ(moments.mean_square(), 0.0);
  moments.Add(3.0);
  EXPECT_EQ(moments.mean(), 3.0);
  EXPECT_EQ(moments.error(), std::nullopt);
  for (const double x : {5.0, 7.0, 9.0}) moments.Add(x);
  EXPECT_EQ(moments.count(), 4);
  EXPECT_DOUBLE_EQ(moments.mean(), 6.0);
  EXPECT_DOUBLE_EQ(moments.mean_square(), (9.0 + 25 + 49 + 81) / 4);
  // Sample variance 20/3 over 4 numbers.
  EXPECT_DOUBLE_EQ(moments.error().value(), std::sqrt(20.0 / 3 / 4));
}

TEST(MomentsTest, SmallSpreadOnALargeMean) {
  Moments moments;
  for (int i = 0; i < 1000; ++i) moments.Add(1e9 + i % 2);
  EXPECT_NEAR(moments.error().value(), std::sqrt(0.25 / 999), 1e-9);
}

TEST(MakeShareTest, KnownAnswers) {
  const Share half = MakeShare(50, 100);
  EXPECT_EQ(half.value, 0.5);
  EXPECT_DOUBLE_EQ(half.error, 0.05);
  // Newcombe (1998), table of Wilson intervals: 81/263 and 0/20.
  const Share third = MakeShare(81, 263);
  EXPECT_NEAR(third.low, 0.2553, 5e-5);
  EXPECT_NEAR(third.high, 0.3662, 5e-5);
  const Share none = MakeShare(0, 20);
  EXPECT_EQ(none.error, 0.0);
  EXPECT_EQ(none.low, 0.0);
  EXPECT_NEAR(none.high, 0.1611, 5e-5);
  const Share all = MakeShare(20, 20);
  EXPECT_EQ(all.high, 1.0);
  EXPECT_NEAR(all.low, 1.0 - 0.1611, 5e-5);
}

TEST(MakeShareTest, TheShareIsInItsInterval) {
  for (int64_t total = 1; total <= 100; ++total) {
    EXPECT_EQ(MakeShare(0, total).low, 0.0) << total;
    EXPECT_EQ(MakeShare(total, total).high, 1.0) << total;
  }
}

TEST(QuantileTest, LiesBetweenNeighbours) {
  const std::vector<double> sorted = {1.0, 2.0, 4.0, 8.0, 16.0};
  EXPECT_EQ(Quantile(sorted, 0.0), 1.0);
  EXPECT_EQ(Quantile(sorted, 0.5), 4.0);
  EXPECT_EQ(Quantile(sorted, 1.0), 16.0);
  EXPECT_DOUBLE_EQ(Quantile(sorted, 0.9), 8.0 + 0.6 * 8.0);
  EXPECT_EQ(Quantile(std::vector<double>{7.0}, 0.3), 7.0);
}

}  // namespace
}  // namespace thermocline::eval
