#include "engine/ffn/expert_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

namespace thermocline::engine {
namespace {

struct Choice {
  std::vector<uint32_t> chosen;
  std::vector<float> weights;
};

Choice Choose(std::vector<float> logits, size_t num_used) {
  Choice choice = {std::vector<uint32_t>(num_used, 99),
                   std::vector<float>(num_used, -1.0f)};
  ChooseExperts(logits, choice.chosen, choice.weights);
  return choice;
}

TEST(ChooseExperts, LargestFirstWithWeightsThatSumToOne) {
  const auto [chosen, weights] = Choose({0.0f, 3.0f, -1.0f, 2.0f, 1.0f}, 3);
  EXPECT_EQ(chosen, (std::vector<uint32_t>{1, 3, 4}));
  const double total = 1.0 + std::exp(-1.0) + std::exp(-2.0);
  EXPECT_NEAR(weights[0], 1.0 / total, 1e-6);
  EXPECT_NEAR(weights[1], std::exp(-1.0) / total, 1e-6);
  EXPECT_NEAR(weights[2], std::exp(-2.0) / total, 1e-6);
}

TEST(ChooseExperts, OfEqualsTheLowestIndex) {
  EXPECT_EQ(Choose({1.0f, 2.0f, 2.0f, 2.0f, 1.0f}, 2).chosen,
            (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(Choose({0.0f, 0.0f, 0.0f}, 3).chosen,
            (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_EQ(Choose({5.0f, 1.0f, 5.0f, 7.0f}, 3).chosen,
            (std::vector<uint32_t>{3, 0, 2}));
}

TEST(ChooseExperts, OneOfOneAndOneOfMany) {
  EXPECT_EQ(Choose({-3.0f}, 1).weights, std::vector<float>{1.0f});
  const Choice one = Choose({-3.0f, 100.0f, 99.0f}, 1);
  EXPECT_EQ(one.chosen, std::vector<uint32_t>{1});
  EXPECT_EQ(one.weights, std::vector<float>{1.0f});
}

TEST(ChooseExperts, FarLogitsNeitherOverflowNorDivideByZero) {
  const Choice choice = Choose({3e38f, -3e38f, -3e38f}, 2);
  EXPECT_EQ(choice.chosen, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(choice.weights, (std::vector<float>{1.0f, 0.0f}));
}

TEST(ChooseExperts, DamageGivesNanWeightsOfRealExperts) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const std::vector<float>& logits :
       {std::vector<float>{kNan, 1.0f, 2.0f, 3.0f},
        std::vector<float>{3.0f, 2.0f, 1.0f, kNan},
        std::vector<float>{1.0f, kInfinity, 2.0f, 3.0f},
        std::vector<float>{-kInfinity, -kInfinity, -kInfinity, -kInfinity},
        std::vector<float>{kNan, kNan, kNan, kNan}}) {
    for (size_t num_used = 1; num_used <= 4; ++num_used) {
      const auto [chosen, weights] = Choose(logits, num_used);
      EXPECT_EQ(std::set(chosen.begin(), chosen.end()).size(), num_used);
      EXPECT_LT(*std::ranges::max_element(chosen), 4u);
      for (const float weight : weights) EXPECT_TRUE(std::isnan(weight));
    }
  }
}

}  // namespace
}  // namespace thermocline::engine
