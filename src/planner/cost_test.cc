#include "planner/cost.h"

#include <gtest/gtest.h>

#include "planner/test_problem.h"

namespace thermocline::planner {
namespace {

// Rates of 1 and 10 bytes a second, so that seconds can be read off.
Problem PlainProblem() {
  Problem problem;
  problem.hardware = {.device_rate = 10.0,
                      .host_rate = 1.0,
                      .bus_rate = 2.0,
                      .up_rate = 4.0,
                      .down_rate = 4.0,
                      .copy_seconds = 0.5,
                      .launch_seconds = 0.25,
                      .sync_seconds = 3.0};
  Layer& layer = problem.layers.emplace_back();
  layer.attention = TestPart(100);
  layer.predictor = TestPart(20);
  layer.neurons = {.rule = Rule::kOpen,
                   .record_bytes = 30,
                   .other_bytes = 8,
                   .host = {.tested = 10, .rest = 20},
                   .device = {.tested = 10, .rest = 20},
                   .frequency = {0.5f, 0.25f, 0.0f}};
  problem.head = TestPart(40);
  problem.budget = 1 << 20;
  problem.fixed_seconds = 7.0;
  return problem;
}

TEST(CostTest, AllOnTheHostIsItsBytes) {
  const Problem problem = PlainProblem();
  const Cost cost = PredictCost(problem, AllOnHost(problem));
  EXPECT_DOUBLE_EQ(cost.seconds, 7 + 100 + 20 + 30 * 0.75 + 40);
  EXPECT_DOUBLE_EQ(cost.traffic.host, 182.5);
  EXPECT_EQ(cost.device_bytes, 0u);
  EXPECT_EQ(cost.layers[0].share_there, 0.0);
}

TEST(CostTest, ASplitFfnTakesTheSlowerAndARoundTrip) {
  const Problem problem = PlainProblem();
  Placement placement = AllOnHost(problem);
  placement.layers[0].neurons = {0};
  const LayerCost layer = PredictCost(problem, placement).layers[0];
  EXPECT_DOUBLE_EQ(layer.ffn.device_seconds, 1.5 + 0.25);
  EXPECT_DOUBLE_EQ(layer.ffn.host_seconds, 7.5);
  EXPECT_DOUBLE_EQ(layer.ffn.seconds, 7.5 + 3.0);
  EXPECT_DOUBLE_EQ(layer.share_there, 2.0 / 3.0);
  EXPECT_EQ(layer.device_bytes, 256u);
}

TEST(CostTest, PartsThereTakeTheirBytesALaunchAndARoundTrip) {
  const Problem problem = PlainProblem();
  Placement placement = AllOnHost(problem);
  placement.layers[0].attention = placement.layers[0].predictor = true;
  placement.head = true;
  const Cost cost = PredictCost(problem, placement);
  EXPECT_DOUBLE_EQ(cost.layers[0].attention.seconds, 10 + 0.25 + 3);
  EXPECT_DOUBLE_EQ(cost.layers[0].predictor.seconds, 2 + 0.25 + 3);
  EXPECT_DOUBLE_EQ(cost.head.seconds, 4 + 0.25 + 3);
  EXPECT_EQ(cost.device_bytes, 3 * 256u);
  EXPECT_EQ(DeviceBytes(problem, placement), cost.device_bytes);
  EXPECT_DOUBLE_EQ(cost.traffic.device, 160);
}

TEST(CostTest, DenseComputesEveryNeuronAndAsksNoPredictor) {
  const Problem problem = PlainProblem();
  Placement placement = AllOnHost(problem);
  placement.scheme = Scheme::kDense;
  EXPECT_DOUBLE_EQ(PredictCost(problem, placement).seconds, 7 + 100 + 90 + 40);
}

TEST(CostTest, EveryNeuronIsTestedWhereNothingPredicts) {
  Problem problem = PlainProblem();
  problem.layers[0].neurons.tested_per_fired = 0.0;
  const Cost cost = PredictCost(problem, AllOnHost(problem));
  EXPECT_DOUBLE_EQ(cost.layers[0].ffn.seconds, 3 * 10 + 20 * 0.75);
}

TEST(CostTest, ExpertsCostAsOftenAsTheyAreChosen) {
  Problem problem = PlainProblem();
  Layer& layer = problem.layers[0];
  layer.neurons = {};
  layer.experts = {.rule = Rule::kOpen,
                   .experts = {{.bytes = 300,
                                .host_read = 100,
                                .device_read = 50,
                                .frequency = 0.5f},
                               {.bytes = 10,
                                .host_read = 10,
                                .device_read = 10,
                                .frequency = 1.0f}}};
  Placement placement = AllOnHost(problem);
  EXPECT_DOUBLE_EQ(PredictCost(problem, placement).layers[0].ffn.seconds, 60);
  placement.layers[0].experts = {0};
  const LayerCost cost = PredictCost(problem, placement).layers[0];
  EXPECT_DOUBLE_EQ(cost.ffn.seconds, 10 + 3);
  EXPECT_DOUBLE_EQ(cost.ffn.traffic.device, 25);
  EXPECT_EQ(cost.device_bytes, 512u);
}

// Half of the attention's bytes are keys and values.
Problem WithKv() {
  Problem problem = PlainProblem();
  problem.layers[0].attention.kv_bytes = 50;
  problem.layers[0].attention.kv_read = 50;
  return problem;
}

// The link has no more than the bus; keys and values do not cross.
TEST(CostTest, WeightsOverTheLinkComeInTheirTurn) {
  const Problem problem = WithKv();
  Placement placement = AllOnHost(problem);
  placement.scheme = Scheme::kStream;
  const Cost cost = PredictCost(problem, placement);
  const LayerCost& layer = cost.layers[0];
  EXPECT_DOUBLE_EQ(layer.attention.seconds, 5 + 0.25 + 50 / 2.0 + 0.5 + 3);
  EXPECT_DOUBLE_EQ(layer.predictor.seconds, 0);
  EXPECT_DOUBLE_EQ(layer.ffn.seconds, 0.25 + 90 / 2.0 + 0.5 + 3);
  EXPECT_DOUBLE_EQ(cost.head.seconds, 0.25 + 40 / 2.0 + 0.5 + 3);
  EXPECT_DOUBLE_EQ(cost.traffic.up, 180);
  EXPECT_DOUBLE_EQ(cost.traffic.device, 50);
  EXPECT_DOUBLE_EQ(cost.traffic.host, 0);
  EXPECT_EQ(cost.device_bytes, 256u);  // keys and values
  EXPECT_EQ(DeviceBytes(problem, placement), 256u);
  placement.layers[0].attention = placement.head = true;
  placement.layers[0].neurons = {0, 1, 2};
  EXPECT_DOUBLE_EQ(PredictCost(problem, placement).seconds,
                   7 + 23 + 3 * (0.25 + 3));
}

TEST(CostTest, OfNeuronsOverTheLinkThoseThatFireCross) {
  const Problem problem = WithKv();
  Placement placement = AllOnHost(problem);
  placement.scheme = Scheme::kFetch;
  const LayerCost layer = PredictCost(problem, placement).layers[0];
  EXPECT_DOUBLE_EQ(layer.ffn.link_seconds, 22.5 / 2 + 0.5);
  EXPECT_DOUBLE_EQ(layer.ffn.seconds, 0.25 + 22.5 / 2 + 0.5 + 3);
  EXPECT_DOUBLE_EQ(layer.ffn.traffic.device, 0);
  EXPECT_DOUBLE_EQ(layer.predictor.seconds, 0.25 + 20 / 2.0 + 0.5 + 3);
}

TEST(CostTest, WhatMayNotBeThereCrossesNoLink) {
  Problem problem = WithKv();
  problem.layers[0].attention.rule = Rule::kHost;
  problem.layers[0].neurons.rule = Rule::kHost;
  problem.head.rule = Rule::kHost;
  Placement placement = AllOnHost(problem);
  placement.scheme = Scheme::kStream;
  const Cost cost = PredictCost(problem, placement);
  EXPECT_DOUBLE_EQ(cost.seconds, 7 + 100 + 90 + 40);
  EXPECT_DOUBLE_EQ(cost.traffic.up, 0);
  EXPECT_EQ(cost.device_bytes, 0u);
}

TEST(CostTest, ARoundTripIsTwoCopiesAndWaking) {
  EXPECT_DOUBLE_EQ(RoundTripSeconds(PlainProblem().hardware, 8.0, 4.0, 0.125),
                   1.0 + 2.0 + 1.0 + 0.125);
}

}  // namespace
}  // namespace thermocline::planner
