#include "planner/parts.h"

#include <gtest/gtest.h>

#include "planner/cost.h"
#include "planner/test_problem.h"

namespace thermocline::planner {
namespace {

TEST(PartsTest, EveryPartIsListedAndPutWhereItIs) {
  Problem problem = TestModelProblem(2, 10, 64, 1.0, 1);
  problem.layers[1].neurons = {};
  problem.layers[1].predictor = {};
  problem.layers[1].matrices = TestPart(300);
  Placement placement = AllOnHost(problem);
  const std::vector<WholePart> parts = PartsOf(problem);
  EXPECT_EQ(parts.size(), 5u);
  uint64_t bytes = 0;
  for (const WholePart& part : parts) {
    Put(part, placement);
    bytes += part.bytes();
    EXPECT_EQ(DeviceBytes(problem, placement), bytes);
  }
  EXPECT_TRUE(placement.head);
  EXPECT_EQ(placement.layers[0], (LayerPlace{true, true, false, {}, {}}));
  EXPECT_EQ(placement.layers[1], (LayerPlace{true, false, true, {}, {}}));
}

TEST(PartsTest, TheBestBytesReadPerByteThereAreFirst) {
  Problem problem = TestModelProblem(2, 10, 64, 1.0, 1);
  problem.layers[0].attention.host_read *= 0.5;
  problem.layers[1].attention.host_read *= 0.9;
  problem.layers[1].predictor.rule = Rule::kHost;
  const std::vector<WholePart> parts = OpenPartsByWorth(problem);
  ASSERT_EQ(parts.size(), 4u);
  EXPECT_EQ(parts[0].kind, PartKind::kHead);
  EXPECT_EQ(parts[1].kind, PartKind::kPredictor);
  EXPECT_EQ(parts[2].layer_idx, 1u);
  EXPECT_EQ(parts[3].layer_idx, 0u);
}

TEST(PartsTest, WhatRulesDemandIsThereOrRefused) {
  Problem problem = TestModelProblem(2, 10, 64, 1.0, 1);
  problem.layers[0].neurons.rule = Rule::kDevice;
  problem.head.rule = Rule::kDevice;
  const Result<Placement> placement = PlaceDemanded(problem);
  ASSERT_TRUE(placement.has_value());
  EXPECT_TRUE(placement->head);
  EXPECT_EQ(placement->layers[0].neurons.size(), 10u);
  EXPECT_FALSE(placement->layers[0].attention);
  problem.budget = DeviceBytes(problem, *placement) - 1;
  EXPECT_EQ(PlaceDemanded(problem).error().code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace thermocline::planner
