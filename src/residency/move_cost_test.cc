#include "residency/move_cost.h"

#include <gtest/gtest.h>

namespace thermocline::residency {
namespace {

// Exact in binary.
constexpr MoveRates kRates = {.per_hit = 0.25,
                              .per_miss = 1.0,
                              .per_layer_with_misses = 0.5,
                              .per_move = 2.0,
                              .moves_start = 1.0,
                              .other = 3.0,
                              .lookahead = 2};

TEST(MoveCost, IsTheSlowerSideAndWhatMovesLeaveOver) {
  const struct {
    uint32_t hits, misses, moves;
    double compute, of_moves, stall;
    Bottleneck what;
  } rows[] = {
      {0, 0, 0, 3.0, 0.0, 0.0, Bottleneck::kNothing},
      {8, 0, 0, 5.0, 0.0, 0.0, Bottleneck::kNothing},
      {8, 1, 0, 5.0, 0.0, 0.0, Bottleneck::kNothing},
      {6, 1, 0, 4.5, 0.0, 0.0, Bottleneck::kNothing},  // both sides 1.5
      {5, 1, 0, 4.5, 0.0, 0.0, Bottleneck::kMisses},
      {0, 4, 0, 7.5, 0.0, 0.0, Bottleneck::kMisses},
      {8, 0, 4, 5.0, 9.0, 0.0, Bottleneck::kNothing},
      {8, 0, 5, 5.0, 11.0, 1.0, Bottleneck::kMoves},
      {0, 4, 7, 7.5, 15.0, 0.0, Bottleneck::kMisses},  // just in time
      {0, 4, 8, 7.5, 17.0, 2.0, Bottleneck::kMoves},
  };
  for (const auto& row : rows) {
    const PassCounts counts = {
        .hits = row.hits, .misses = row.misses, .moves = row.moves};
    const LayerTime time = TimeOf(kRates, counts);
    EXPECT_DOUBLE_EQ(time.compute, row.compute);
    EXPECT_DOUBLE_EQ(time.moves, row.of_moves);
    EXPECT_DOUBLE_EQ(time.stall, row.stall);
    EXPECT_DOUBLE_EQ(time.total(), row.compute + row.stall);
    EXPECT_EQ(BottleneckOf(kRates, counts), row.what);
  }
}

TEST(MoveCost, TheWindowTakesAllForWhichNobodyWaits) {
  EXPECT_EQ(MovesInWindow(kRates, {.hits = 8}), 4u);
  EXPECT_EQ(MovesInWindow(kRates, {.misses = 4, .moves = 99}), 7u);
  MoveRates rates = kRates;
  rates.lookahead = 0;
  EXPECT_EQ(MovesInWindow(rates, {.hits = 8}), 0u);
  rates = {.per_hit = 1.0};
  EXPECT_EQ(MovesInWindow(rates, {}), UINT32_MAX);  // they take no time
}

// With rates that are no sums of powers of two.
TEST(MoveCost, TheWindowIsWhereStallsBegin) {
  for (uint32_t i = 1; i < 500; ++i) {
    const MoveRates rates = {.per_hit = 1e-6 * i,
                             .per_miss = 3.3e-6,
                             .per_move = 1.7e-6 / i,
                             .moves_start = 1e-5,
                             .other = 1e-4};
    PassCounts counts = {.hits = 7 * i, .misses = i};
    counts.moves = MovesInWindow(rates, counts);
    EXPECT_GT(counts.moves, 0u);
    EXPECT_EQ(TimeOf(rates, counts).stall, 0.0) << i;
    ++counts.moves;
    EXPECT_GT(TimeOf(rates, counts).stall, 0.0) << i;
  }
}

TEST(MoveCost, ReplaysAreToldOfIt) {
  ReplayOptions options;
  UseRates(kRates, options);
  const PassCounts counts = {.hits = 8, .moves = 5};
  EXPECT_EQ(options.bottleneck(counts), Bottleneck::kMoves);
  EXPECT_DOUBLE_EQ(options.seconds(counts), 6.0);
}

}  // namespace
}  // namespace thermocline::residency
