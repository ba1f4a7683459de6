#include "planner/spend.h"

#include <gtest/gtest.h>

#include "planner/cost.h"
#include "planner/test_problem.h"

namespace thermocline::planner {
namespace {

// A layer of neurons and two parts of which the larger is worth more a byte.
struct Market {
  Part large = TestPart(1 << 20), small = TestPart(1 << 18);
  Layer layer;
  Hardware hardware = TestHardware();
  std::vector<OpenPart> parts;
  std::vector<FfnCurve> curves;
  State state;

  Market() {
    Random random(4);
    hardware.sync_seconds = hardware.launch_seconds = 1e-6;
    layer.neurons = TestNeurons(200, 4096, 0.3, random);
    parts = {{{&large, PartKind::kAttention, 0}, 1 << 20, 1e-4},
             {{&small, PartKind::kPredictor, 0}, 1 << 18, 1e-5}};
    curves.emplace_back(hardware, layer);
    state.choices = {{false, false}, {false, false}, {false}};
    state.counts = {0};
    state.seconds = 1.0;
  }
};

TEST(SpendTest, BuysUntilNothingFitsOrHelps) {
  Market market;
  SpendRest(market.parts, market.curves, uint64_t{1} << 40, market.state);
  EXPECT_TRUE(market.state.choices.there[0] && market.state.choices.there[1]);
  const size_t count = market.state.counts[0];
  EXPECT_GT(count, 0u);
  EXPECT_LE(count, market.curves[0].turn());
  EXPECT_EQ(market.state.bytes,
            (1u << 20) + (1u << 18) + market.curves[0].Bytes(count));
  EXPECT_NEAR(market.state.seconds,
              1.0 - 1.1e-4 + market.curves[0].Seconds(count) -
                  market.curves[0].Seconds(0),
              1e-12);
}

TEST(SpendTest, WhatDoesNotFitOrIsBarredIsNotBought) {
  Market market;
  SpendRest(market.parts, market.curves, 0, market.state);
  EXPECT_EQ(market.state.bytes, 0u);
  market.state.choices.without = {true};
  SpendRest(market.parts, market.curves, (1 << 20) - 1, market.state);
  EXPECT_FALSE(market.state.choices.there[0]);
  EXPECT_TRUE(market.state.choices.there[1]);
  market.state.choices.barred[0] = true;
  SpendRest(market.parts, market.curves, 1 << 30, market.state);
  EXPECT_FALSE(market.state.choices.there[0]);
  EXPECT_EQ(market.state.counts[0], 0u);
}

// Less than the best first purchase takes, but as much as pays.
TEST(SpendTest, ASmallerPurchaseIsMadeWhereTheBestDoesNotFit) {
  Market market;
  const size_t first = market.curves[0].BestFirst();
  ASSERT_GT(first, 2u);
  market.state.choices.barred = {true, true};
  const uint64_t budget = market.curves[0].Bytes(first) - 1;
  SpendRest(market.parts, market.curves, budget, market.state);
  EXPECT_EQ(market.state.counts[0], first - 1);
}

}  // namespace
}  // namespace thermocline::planner
