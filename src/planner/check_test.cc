#include "planner/check.h"

#include <gtest/gtest.h>

#include <functional>

#include "planner/cost.h"
#include "planner/test_problem.h"

namespace thermocline::planner {
namespace {

Problem MixedProblem() {
  Problem problem = TestModelProblem(2, 10, 64, 1.0, 1);
  Layer& mixture = problem.layers.emplace_back();
  mixture.attention = TestPart(300);
  mixture.experts = {.rule = Rule::kOpen, .experts = {}};
  mixture.experts.experts.resize(
      4,
      {.bytes = 300, .host_read = 300, .device_read = 300, .frequency = 0.5f});
  problem.layers[1].neurons.rule = Rule::kHost;
  problem.layers[1].attention.rule = Rule::kHost;
  problem.layers[0].attention.rule = Rule::kDevice;
  problem.budget = AllBytes(problem);
  return problem;
}

struct BadPlacementCase {
  std::function<void(Placement&, Claims&)> spoil;
  const char* message;
};
const BadPlacementCase kBadPlacements[] = {
    {[](Placement& p, Claims&) { p.layers.pop_back(); },
     "a placement of 2 layers, of a model of 3 layers"},
    {[](Placement& p, Claims&) { p.layers[0].neurons = {1, 10}; },
     "neuron 10 of layer 0 is placed on the device; there are 10"},
    {[](Placement& p, Claims&) { p.layers[0].neurons = {3, 3}; },
     "neuron 3 of layer 0 is listed behind neuron 3"},
    {[](Placement& p, Claims&) { p.layers[0].neurons = {3, 2}; },
     "neuron 2 of layer 0 is listed behind neuron 3"},
    {[](Placement& p, Claims&) { p.layers[0].experts = {0}; },
     "expert 0 of layer 0 is placed on the device; there are 0"},
    {[](Placement& p, Claims&) { p.layers[2].predictor = true; },
     "the predictor of layer 2 is placed on the device; there is none"},
    {[](Placement& p, Claims&) { p.layers[0].matrices = true; },
     "the FFN of layer 0 is placed on the device; there is none"},
    {[](Placement& p, Claims&) { p.layers[1].attention = true; },
     "the attention of layer 1 is placed on the device, where it may not be"},
    {[](Placement& p, Claims&) { p.layers[1].neurons = {0}; },
     "neuron 0 of layer 1 is placed on the device, where it may not be"},
    {[](Placement& p, Claims&) { p.layers[0].attention = false; },
     "the attention of layer 0 is not placed on the device"},
    {[](Placement&, Claims& c) { c.least_there = {5, 0, 0}; },
     "4 of layer 0 are placed on the device: fewer than 5"},
    {[](Placement&, Claims& c) { c.least_there = {5}; },
     "least numbers of 1 layer"},
    {[](Placement&, Claims& c) { *c.device_bytes += 256; },
     "the placement is said to take"},
    {[](Placement&, Claims& c) { *c.seconds *= 1.000001; },
     "a token is said to take"}};

TEST(CheckTest, NamesTheFirstThingWrong) {
  const Problem problem = MixedProblem();
  Placement good = AllOnHost(problem);
  good.layers[0].attention = true;
  good.layers[0].neurons = {0, 2, 3, 9};
  good.layers[2].experts = {1, 3};
  Claims claims;
  claims.seconds = PredictCost(problem, good).seconds;
  claims.device_bytes = DeviceBytes(problem, good);
  claims.least_there = {4, 0, 1};
  const Status is_good = CheckPlacement(problem, good, claims);
  ASSERT_TRUE(is_good.has_value()) << is_good.error().message;
  for (const BadPlacementCase& c : kBadPlacements) {
    Placement placement = good;
    Claims said = claims;
    c.spoil(placement, said);
    const Status checked = CheckPlacement(problem, placement, said);
    ASSERT_FALSE(checked.has_value()) << c.message;
    EXPECT_EQ(checked.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(checked.error().message.find(c.message), std::string::npos)
        << checked.error().message;
  }
}

TEST(CheckTest, AByteTooManyIsRefused) {
  Problem problem = MixedProblem();
  Placement placement = AllOnHost(problem);
  placement.layers[0].attention = true;
  placement.layers[0].neurons = {0, 1};
  placement.layers[2].experts = {0};
  problem.budget = DeviceBytes(problem, placement);
  EXPECT_TRUE(CheckPlacement(problem, placement).has_value());
  problem.budget -= 1;
  const Status checked = CheckPlacement(problem, placement);
  ASSERT_FALSE(checked.has_value());
  EXPECT_EQ(checked.error().code, ErrorCode::kResourceExhausted);
}

TEST(CheckTest, WithALinkLayersAreWholeAndCachesThere) {
  Problem problem = MixedProblem();
  problem.layers[0].attention.kv_bytes = 1000;
  problem.layers[2].attention.kv_bytes = 100;
  Claims claims;
  claims.keeps_rules = false;
  for (const Scheme scheme : {Scheme::kStream, Scheme::kFetch}) {
    Placement placement = AllOnHost(problem);
    placement.scheme = scheme;
    claims.device_bytes = 1024 + 256;
    EXPECT_TRUE(CheckPlacement(problem, placement, claims).has_value());
    claims.device_bytes = 1024 + 512 + 4 * 512;
    placement.layers[2].attention = true;
    placement.layers[2].experts = {0, 1, 2, 3};
    const Status whole = CheckPlacement(problem, placement, claims);
    EXPECT_TRUE(whole.has_value()) << whole.error().message;
    placement.layers[2].experts = {0, 1, 2};
    const Status pieces = CheckPlacement(problem, placement, claims);
    ASSERT_FALSE(pieces.has_value());
    EXPECT_NE(pieces.error().message.find("4 of 5 things of layer 2"),
              std::string::npos)
        << pieces.error().message;
  }
}

TEST(CheckTest, RulesAreOthersBusinessWhereNobodyClaimsThem) {
  const Problem problem = MixedProblem();
  Claims claims;
  claims.keeps_rules = false;
  Placement placement = AllOnHost(problem);
  placement.layers[1].neurons = {0};
  EXPECT_TRUE(CheckPlacement(problem, placement, claims).has_value());
}

}  // namespace
}  // namespace thermocline::planner
