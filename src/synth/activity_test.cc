#include "synth/activity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace thermocline::synth {
namespace {

using ::testing::HasSubstr;

double Mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) /
         static_cast<double>(values.size());
}

TEST(SynthActivityTest, SharesHaveTheDensityAndTheSkew) {
  for (const auto& [density, skew] :
       {std::pair(0.1, 0.26), {0.02, 0.1}, {0.3, 0.5}, {0.5, 0.7}}) {
    const auto shares = SolveShares(4096, density, skew);
    ASSERT_TRUE(shares.has_value()) << shares.error().message;
    EXPECT_NEAR(Mean(*shares), density, 1e-9);
    EXPECT_NEAR(SkewOf(*shares), skew, 1e-6);
    EXPECT_LE(shares->front(), kMaxShare);
    EXPECT_GT(shares->back(), 0.0);
    EXPECT_TRUE(std::is_sorted(shares->rbegin(), shares->rend()));
  }
}

TEST(SynthActivityTest, RefusesWhatNoLawHas) {
  EXPECT_FALSE(SolveShares(100, 0.0, 0.3).has_value());
  EXPECT_FALSE(SolveShares(100, 0.51, 0.7).has_value());
  const auto flat = SolveShares(1000, 0.1, 0.9);
  ASSERT_FALSE(flat.has_value());
  EXPECT_THAT(flat.error().message, HasSubstr("to 0.800 is"));
  const auto steep = SolveShares(1000, 0.3, 0.2);
  ASSERT_FALSE(steep.has_value());
  EXPECT_THAT(steep.error().message,
              HasSubstr("a skew of 0.2 is not possible with a density of 0.3; "
                        "0.253 to 0.800 is"));
}

TEST(SynthActivityTest, CandidatesAreARatioOfTheShares) {
  for (const auto& [density, skew] : {std::pair(0.1, 0.26), {0.5, 0.7}}) {
    const auto shares = SolveShares(4096, density, skew).value();
    const auto candidates = CandidateShares(shares, 1.6);
    EXPECT_NEAR(Mean(candidates) / density, 1.6, 1e-6);
    EXPECT_LE(candidates.front(), kMaxCandidateShare);
    for (size_t i = 0; i < shares.size(); ++i) {
      EXPECT_GE(candidates[i], shares[i]);
    }
  }
}

TEST(SynthActivityTest, CorrelationGrowsWithTheLocality) {
  const auto shares = SolveShares(4096, 0.1, 0.26).value();
  const LocalityRange range = PossibleLocality(shares);
  EXPECT_NEAR(SolveCorrelation(shares, range.low).value(), 0.0, 1e-6);
  EXPECT_NEAR(SolveCorrelation(shares, range.high).value(), kMaxCorrelation,
              1e-6);
  double before = 0.0;
  for (const double locality : {0.5, 0.6, 0.7}) {
    const double correlation = SolveCorrelation(shares, locality).value();
    EXPECT_GT(correlation, before);
    before = correlation;
  }
  const auto wrong = SolveCorrelation(shares, 0.1);
  ASSERT_FALSE(wrong.has_value());
  EXPECT_THAT(wrong.error().message, HasSubstr("is not possible"));
}

}  // namespace
}  // namespace thermocline::synth
