#include "neuron/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/random.h"

namespace thermocline::neuron {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

using Sets = std::vector<std::vector<uint32_t>>;

// One layer; each list of sets is a sequence.
LayerProfile ProfileOf(size_t num_neurons, const std::vector<Sets>& sequences) {
  ProfileBuilder builder(1, num_neurons);
  for (const Sets& sequence : sequences) {
    builder.BeginSequence();
    for (const auto& set : sequence) builder.Add(0, set);
  }
  return builder.profile().layers[0];
}

TEST(ProfileTest, WhatTwoSetsShare) {
  const std::vector<uint32_t> a = {1, 4, 5, 9};
  EXPECT_EQ(CountBoth(a, a), 4u);
  EXPECT_EQ(CountBoth(a, std::vector<uint32_t>{0, 4, 6, 9, 12}), 2u);
  EXPECT_EQ(CountBoth(std::vector<uint32_t>{0, 4, 6, 9, 12}, a), 2u);
  EXPECT_EQ(CountBoth(a, {}), 0u);
}

TEST(ProfileTest, CountsByHand) {
  const LayerProfile layer =
      ProfileOf(5, {{{0, 1}, {1, 3}, {}, {1}}, {{1, 2, 3}}});
  EXPECT_THAT(layer.counts, ElementsAre(1, 4, 1, 2, 0));
  EXPECT_EQ(layer.num_tokens, 5u);
  EXPECT_EQ(layer.num_fired, 8u);
  EXPECT_DOUBLE_EQ(layer.density(), 8.0 / 25.0);
  const double mean_square = (0.16 + 0.16 + 0.0 + 0.04 + 0.36) / 5.0;
  EXPECT_NEAR(layer.density_deviation(), std::sqrt(mean_square - 0.32 * 0.32),
              1e-12);
  // {1,3} after {0,1}: a half. {1} after {}: nothing. {} and the first of a
  // sequence do not count.
  EXPECT_EQ(layer.num_pairs, 2u);
  EXPECT_DOUBLE_EQ(layer.locality().value(), 0.25);
  EXPECT_DOUBLE_EQ(layer.chance_locality(), 22.0 / (8.0 * 5.0));
  // 4 of 8, 6 of 8, 7 of 8: three neurons have 80 %.
  EXPECT_DOUBLE_EQ(layer.skew(), 3.0 / 5.0);
  EXPECT_DOUBLE_EQ(layer.skew(0.5), 1.0 / 5.0);
  EXPECT_DOUBLE_EQ(layer.never_fired(), 1.0 / 5.0);
  EXPECT_THAT(layer.Cdf(6),
              Pointwise(DoubleNear(1e-12), {0., .5, .75, .875, 1., 1.}));
  EXPECT_THAT(layer.Cdf(3), Pointwise(DoubleNear(1e-12), {0., .8125, 1.}));
}

TEST(ProfileTest, OfNothing) {
  for (const LayerProfile& layer :
       {LayerProfile(), ProfileOf(3, {}), ProfileOf(3, {{{}, {}}})}) {
    EXPECT_EQ(layer.density(), 0.0);
    EXPECT_EQ(layer.density_deviation(), 0.0);
    EXPECT_EQ(layer.locality(), std::nullopt);
    EXPECT_EQ(layer.chance_locality(), 0.0);
    EXPECT_EQ(layer.skew(), 0.0);
    EXPECT_THAT(layer.Cdf(2), ElementsAre(0, 0));
  }
  EXPECT_EQ(Profile().density(), 0.0);
  EXPECT_EQ(Profile().num_tokens(), 0u);
}

// Neurons that fire for every token: everything is 1, no deviation.
TEST(ProfileTest, OfEverything) {
  const LayerProfile layer = ProfileOf(4, {Sets(9, {0, 1, 2, 3})});
  EXPECT_EQ(layer.density(), 1.0);
  EXPECT_EQ(layer.density_deviation(), 0.0);
  EXPECT_EQ(layer.locality(), 1.0);
  EXPECT_EQ(layer.chance_locality(), 1.0);
  EXPECT_EQ(layer.skew(), 1.0);
  EXPECT_EQ(layer.never_fired(), 0.0);
}

// A chain with a known locality, against sets and the formula.
TEST(ProfileTest, MeasuresAKnownLocality) {
  constexpr size_t kNeurons = 777;
  Random random(3);
  std::vector<bool> fires(kNeurons, false);
  Sets sets;
  for (int t = 0; t < 400; ++t) {
    std::vector<uint32_t> set;
    for (uint32_t i = 0; i < kNeurons; ++i) {
      // Stays with 0.7, begins so that a tenth fires: 0.1 * 0.3 / 0.9.
      const double p = fires[i] ? 0.7 : 0.1 * 0.3 / 0.9;
      fires[i] = random.Uniform() < (t == 0 ? 0.1 : p);
      if (fires[i]) set.push_back(i);
    }
    sets.push_back(set);
  }
  double sum = 0.0;
  for (size_t t = 1; t < sets.size(); ++t) {
    const std::set<uint32_t> before(sets[t - 1].begin(), sets[t - 1].end());
    sum += static_cast<double>(std::ranges::count_if(
               sets[t], [&](uint32_t i) { return before.contains(i); })) /
           static_cast<double>(sets[t].size());
  }
  const LayerProfile layer = ProfileOf(kNeurons, {sets});
  EXPECT_NEAR(layer.locality().value(), sum / 399.0, 1e-12);
  EXPECT_NEAR(layer.locality().value(), 0.7, 0.02);
  EXPECT_NEAR(layer.density(), 0.1, 0.01);
  EXPECT_NEAR(layer.chance_locality(), 0.1, 0.01);
}

TEST(ProfileTest, MergingIsTheSameAsOneRun) {
  const Sets one = {{0, 2}, {2}, {1, 2}};
  const Sets two = {{2}, {2, 3}};
  Profile merged{{ProfileOf(4, {one})}};
  ASSERT_TRUE(merged.Merge({{ProfileOf(4, {two})}}));
  EXPECT_EQ(merged.layers[0], ProfileOf(4, {one, two}));
}

TEST(ProfileTest, RefusesToMergeWhatDoesNotFit) {
  const auto message = [](Profile a, const Profile& b) {
    const Profile before = a;
    const Status status = a.Merge(b);
    EXPECT_EQ(a, before);
    return status.has_value() ? "" : status.error().message;
  };
  const Profile one{{ProfileOf(4, {{{0}}})}};
  EXPECT_THAT(message(one, {}), HasSubstr("1 and 0 layers"));
  EXPECT_THAT(message(one, {{ProfileOf(5, {})}}),
              HasSubstr("layer 0 has 4 neurons in the one and 5"));
  Profile full = one;
  full.layers[0].num_tokens = kMaxProfileTokens;
  EXPECT_THAT(message(one, full), HasSubstr("more than the 2147483647"));
}

TEST(ProfileTest, AMeanOfThoseLayersThatHaveALocality) {
  ProfileBuilder builder(3, 4);
  builder.BeginSequence();
  for (int t = 0; t < 2; ++t) {
    builder.Add(0, std::vector<uint32_t>{0, 1});
    builder.Add(1, std::vector<uint32_t>{});
    builder.Add(2, std::vector<uint32_t>{0, t == 0 ? 1u : 2u});
  }
  EXPECT_EQ(builder.profile().layers[1].locality(), std::nullopt);
  EXPECT_DOUBLE_EQ(builder.profile().locality().value(), 0.75);
  EXPECT_EQ(ProfileBuilder(3, 4).profile().locality(), std::nullopt);
}

TEST(ProfileTest, MeansOverLayers) {
  ProfileBuilder builder(2, 4);
  builder.BeginSequence();
  for (int t = 0; t < 3; ++t) {
    builder.Add(0, std::vector<uint32_t>{0});
    builder.Add(1, std::vector<uint32_t>{0, 1, 2});
  }
  const Profile& profile = builder.profile();
  EXPECT_EQ(profile.num_tokens(), 3u);
  EXPECT_DOUBLE_EQ(profile.density(), 0.5);
  EXPECT_DOUBLE_EQ(profile.skew(), 0.5);
  EXPECT_DOUBLE_EQ(profile.locality().value(), 1.0);
}

}  // namespace
}  // namespace thermocline::neuron
