#include "synth/experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "synth/activity.h"

namespace thermocline::synth {
namespace {

using ::testing::HasSubstr;

TEST(SynthExpertsTest, BiasesGiveTheSkew) {
  struct Case {
    size_t num_experts, num_used;
    double skew;
  };
  for (const Case& c : {Case{8, 2, 0.5},
                        {16, 4, 0.4},
                        {32, 4, 0.3},
                        {128, 8, 0.2},
                        {128, 8, 0.7}}) {
    const auto biases = SolveExpertBiases(c.num_experts, c.num_used, c.skew);
    ASSERT_TRUE(biases.has_value()) << biases.error().message;
    EXPECT_GT(biases->front(), biases->back());
    std::vector<double> shares = ExpertShares(*biases, c.num_used);
    EXPECT_NEAR(std::accumulate(shares.begin(), shares.end(), 0.0),
                static_cast<double>(c.num_used), 1e-9);
    std::ranges::sort(shares, std::greater<>());
    EXPECT_NEAR(SkewOf(shares), c.skew, 0.01) << c.num_experts;
  }
}

TEST(SynthExpertsTest, CorrelationGivesTheLocality) {
  const auto biases = SolveExpertBiases(16, 4, 0.5);
  ASSERT_TRUE(biases.has_value());
  // By chance: the sum of squares of the shares, of those that are used.
  const std::vector<double> shares = ExpertShares(*biases, 4);
  double chance = 0.0;
  for (const double share : shares) chance += share * share / 4.0;
  EXPECT_NEAR(ExpertLocality(*biases, 4, 0.0), chance, 0.01);
  for (const double locality : {0.5, 0.7}) {
    const auto correlation = SolveExpertCorrelation(*biases, 4, locality);
    ASSERT_TRUE(correlation.has_value()) << correlation.error().message;
    EXPECT_NEAR(ExpertLocality(*biases, 4, *correlation), locality, 1e-3);
  }
  // Without biases: u of E by chance.
  EXPECT_NEAR(ExpertLocality(std::vector<double>(16), 4, 0.0), 0.25, 0.01);
}

TEST(SynthExpertsTest, SaysWhatIsPossible) {
  const auto skew = SolveExpertBiases(8, 2, 0.05);
  ASSERT_FALSE(skew.has_value());
  EXPECT_THAT(skew.error().message,
              HasSubstr("experts: a skew of 0.05 is not possible"));
  const auto locality = SolveExpertCorrelation(std::vector<double>(8), 2, 0.1);
  ASSERT_FALSE(locality.has_value());
  EXPECT_THAT(locality.error().message,
              HasSubstr("a locality of 0.1 is not possible with 2 of 8"));
}

}  // namespace
}  // namespace thermocline::synth
