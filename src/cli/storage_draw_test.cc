#include "cli/storage_draw.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace thermocline::cli {
namespace {

// Shares from 0.9 down; what is drawn has them, and stays as the law says.
TEST(StorageDraw, KeepsToSharesAndLocality) {
  LayerLaw law = {.stays = 0.5};
  double sum = 0.0, squares = 0.0;
  for (int i = 0; i < 200; ++i) {
    law.shares.push_back(0.9f / static_cast<float>(1 + i));
    sum += 0.9 / (1 + i);
    squares += 0.81 / ((1 + i) * (1 + i));
  }
  for (const double per_fired : {1.0, 1.6}) {
    Drawer drawer({law}, per_fired, /*extra_only=*/false, 3);
    constexpr int kTokens = 4000;
    double fired = 0.0, both = 0.0;
    std::vector<bool> before(200);
    for (int t = 0; t < kTokens; ++t) {
      const std::vector<bool>& now = drawer.Next(0);
      for (size_t i = 0; i < now.size(); ++i) {
        fired += now[i] ? 1.0 : 0.0;
        both += now[i] && before[i] ? 1.0 : 0.0;
      }
      before = now;
    }
    EXPECT_NEAR(fired / kTokens, per_fired * sum, 0.05 * per_fired * sum);
    if (per_fired == 1.0) {
      EXPECT_NEAR(both / fired, 0.5 + 0.5 * squares / sum, 0.03);
    }
  }
  // Those that fire and the others together are as many as are asked for.
  Drawer extra({law}, 1.6, /*extra_only=*/true, 3);
  double others = 0.0;
  for (int t = 0; t < 2000; ++t) {
    const std::vector<bool>& now = extra.Next(0);
    for (size_t i = 0; i < now.size(); ++i) {
      if (now[i]) others += 1.0 - static_cast<double>(law.shares[i]);
    }
  }
  EXPECT_NEAR(others / 2000, 0.6 * sum, 0.06 * sum);
}

TEST(StorageDraw, ChoosesAsManyExpertsAsTheModel) {
  model::Config config;
  config.layers.resize(1);
  config.layers[0].ffn.width = 2;
  config.layers[0].ffn.num_experts = 4;
  config.layers[0].ffn.num_experts_used = 2;
  const LayerLaw law = {.shares = {0.5f, 0.5f, 0.1f, 0.1f, 0, 0, 0.2f, 0.2f}};
  ExpertDrawer drawer(config, {law}, 1);
  std::vector<int> counts(4);
  for (int t = 0; t < 1000; ++t) {
    const std::vector<uint32_t> chosen = drawer.Next(0);
    ASSERT_EQ(chosen.size(), 2u);
    EXPECT_LT(chosen[0], chosen[1]);
    for (const uint32_t expert : chosen) ++counts[expert];
  }
  EXPECT_EQ(counts[2], 0);
  EXPECT_GT(counts[0], counts[3]);
  EXPECT_GT(counts[3], counts[1]);
}

TEST(StorageDraw, DrawsNeuronsOfTheExpertsAtHand) {
  model::Config config;
  config.layers.resize(1);
  config.layers[0].ffn = {.width = 4, .num_experts = 3, .num_experts_used = 1};
  // Half of the tokens have expert 0, of whose neurons one of four fires.
  const LayerLaw law = {
      .shares = {0.5f, 0, 0, 0, 0.125f, 0.125f, 0, 0, 0, 0, 0.25f, 0}};
  ExpertNeurons named(config, {law}, 1.0, 1);
  std::vector<int> counts(12);
  for (int t = 0; t < 1000; ++t) {
    for (const uint32_t neuron : named.Of(0, {0, 1}, {})) ++counts[neuron];
  }
  EXPECT_EQ(counts[0], 1000);
  EXPECT_NEAR(counts[4], 500, 60);
  EXPECT_EQ(counts[6], 0);
  EXPECT_EQ(counts[10], 0);  // of an expert that is not at hand
  using Neurons = std::vector<uint32_t>;
  EXPECT_EQ(named.Of(0, {0}, {0, 3}), (Neurons{0, 3}));
  EXPECT_EQ(ExpertNeurons(config, {law}, 0.0, 1).Of(0, {1}, {}),
            (Neurons{4, 5, 6, 7}));
  EXPECT_EQ(ExpertsOf({0, 3, 8, 9}, 4), (Neurons{0, 2}));
}

}  // namespace
}  // namespace thermocline::cli
