#include "eval/log_softmax.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace thermocline::eval {
namespace {

TEST(LogProbabilityTest, KnownAnswers) {
  const std::vector<float> uniform(4, 3.0f);
  EXPECT_NEAR(LogProbability(uniform, 2).value(), -std::log(4.0), 1e-15);
  const std::vector<float> logits = {0.0f, 1.0f};
  EXPECT_NEAR(LogProbability(logits, 0).value(), -std::log1p(std::exp(1.0)),
              1e-15);
  EXPECT_EQ(LogProbability(std::vector<float>{5.0f}, 0).value(), 0.0);
}

TEST(LogProbabilityTest, LargeLogitsNeitherOverflowNorLoseTheToken) {
  const std::vector<float> large = {1e30f, 1e4f, 1e4f - 2.0f};
  EXPECT_EQ(LogProbability(large, 0).value(), 0.0);
  EXPECT_NEAR(LogProbability(std::span(large).subspan(1), 1).value(),
              -2.0 - std::log1p(std::exp(-2.0)), 1e-11);
}

TEST(LogSumExpTest, NamesWhatIsNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float bad : {kInfinity, -kInfinity, std::nanf("")}) {
    const auto result = LogSumExp(std::vector<float>{0.0f, 1.0f, bad});
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(result.error().message,
                ::testing::HasSubstr("the logit of token 2 is "));
  }
}

}  // namespace
}  // namespace thermocline::eval
