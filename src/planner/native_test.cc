#include "planner/native.h"

#include <gtest/gtest.h>

#include <limits>

#include "planner/check.h"
#include "planner/cost.h"
#include "planner/ilp.h"
#include "planner/test_problem.h"

namespace thermocline::planner {
namespace {

Claims ClaimsOf(const Problem& problem, const Solution& solution) {
  Claims claims;
  claims.seconds = solution.seconds;
  claims.device_bytes = DeviceBytes(problem, solution.placement);
  return claims;
}

// Every placement of a small problem.
double BestOfAll(const Problem& problem, size_t layer_idx,
                 Placement& placement) {
  if (layer_idx == problem.layers.size()) {
    double best = std::numeric_limits<double>::max();
    for (const bool head : {false, true}) {
      placement.head = head;
      if (DeviceBytes(problem, placement) > problem.budget) continue;
      best = std::min(best, PredictCost(problem, placement).seconds);
    }
    return best;
  }
  const Layer& layer = problem.layers[layer_idx];
  LayerPlace& place = placement.layers[layer_idx];
  const bool are_neurons = layer.experts.experts.empty();
  const size_t count =
      are_neurons ? layer.neurons.count() : layer.experts.experts.size();
  double best = std::numeric_limits<double>::max();
  for (uint32_t parts = 0; parts < 8; ++parts) {
    place = {};
    place.attention = (parts & 1) != 0;
    place.predictor = (parts & 2) != 0;
    place.matrices = (parts & 4) != 0;
    if (place.predictor && !layer.predictor.exists()) continue;
    if (place.matrices && !layer.matrices.exists()) continue;
    for (uint32_t set = 0; set < 1u << count; ++set) {
      std::vector<uint32_t>& items =
          are_neurons ? place.neurons : place.experts;
      items.clear();
      for (uint32_t i = 0; i < count; ++i) {
        if ((set >> i & 1) != 0) items.push_back(i);
      }
      best = std::min(best, BestOfAll(problem, layer_idx + 1, placement));
    }
  }
  return best;
}

TEST(NativeTest, SmallProblemsAreSolvedNearlyAsByTryingAll) {
  double sum = 0.0;
  size_t num_problems = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Problem problem = RandomProblem(seed, 5);
    problem.layers.resize(std::min<size_t>(problem.layers.size(), 2));
    if (problem.layers.size() < 2) continue;
    for (Layer& layer : problem.layers) {
      if (layer.experts.experts.size() > 5) layer.experts.experts.resize(5);
    }
    problem.budget =
        static_cast<uint64_t>(0.1 * static_cast<double>(1 + seed % 9) *
                              static_cast<double>(AllBytes(problem)));
    const Result<Solution> solution = SolveNative(problem);
    ASSERT_TRUE(solution.has_value());
    Placement scratch = AllOnHost(problem);
    const double best = BestOfAll(problem, 0, scratch);
    EXPECT_LE(solution->bound_seconds, best * (1 + 1e-9)) << seed;
    EXPECT_LE(solution->seconds, best * 1.1) << seed;
    sum += solution->seconds / best - 1.0;
    ++num_problems;
  }
  EXPECT_LE(sum / static_cast<double>(num_problems), 0.002);
}

TEST(NativeTest, PlacementsPassTheCheckerAndBeatTheOthers) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Problem problem = RandomProblem(seed);
    const Status is_problem = CheckProblem(problem);
    ASSERT_TRUE(is_problem.has_value()) << is_problem.error().message;
    const Result<Solution> solution = SolveNative(problem);
    ASSERT_TRUE(solution.has_value()) << solution.error().message;
    const Status checked = CheckPlacement(problem, solution->placement,
                                          ClaimsOf(problem, *solution));
    ASSERT_TRUE(checked.has_value()) << seed << checked.error().message;
    EXPECT_LE(solution->bound_seconds, solution->seconds);
    const Result<Placement> hottest = PlaceByFrequency(problem);
    ASSERT_TRUE(hottest.has_value());
    EXPECT_LE(solution->seconds, 1.01 * PredictCost(problem, *hottest).seconds)
        << seed;
  }
}

TEST(NativeTest, IsNotSlowerThanTheIntegerProgram) {
  if (!HasIlp()) GTEST_SKIP() << "CBC is not here: coinor-libcbc-dev";
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Problem problem = RandomProblem(seed);
    const Result<Solution> solution = SolveNative(problem);
    ASSERT_TRUE(solution.has_value());
    const Result<IlpSolution> ilp = SolveIlp(problem, {.group_size = 16});
    ASSERT_TRUE(ilp.has_value()) << ilp.error().message;
    EXPECT_LE(solution->seconds,
              1.01 * PredictCost(problem, ilp->placement).seconds)
        << seed;
  }
}

TEST(NativeTest, LargerModelsAreNearTheBound) {
  for (const double share : {0.05, 0.1, 0.3, 0.6, 1.1}) {
    const Problem problem = TestModelProblem(48, 3001, 1024, share, 7);
    const Result<Solution> solution = SolveNative(problem);
    ASSERT_TRUE(solution.has_value());
    EXPECT_LT(solution->gap(), 0.01) << share;
    EXPECT_TRUE(CheckPlacement(problem, solution->placement,
                               ClaimsOf(problem, *solution))
                    .has_value());
  }
}

TEST(NativeTest, MoreMemoryIsNeverSlower) {
  double last = 1e9;
  Problem problem = TestModelProblem(8, 501, 256, 0.0, 3);
  const uint64_t all = AllBytes(problem);
  for (int i = 0; i <= 20; ++i) {
    problem.budget = all / 20 * static_cast<uint64_t>(i);
    const Result<Solution> solution = SolveNative(problem);
    ASSERT_TRUE(solution.has_value());
    EXPECT_LE(solution->seconds, last * 1.001) << i;
    last = solution->seconds;
  }
}

// C_l is in the objective: where all of a layer's neurons save less than a
// round trip costs, none is placed; where they save more, none or enough of
// them.
TEST(NativeTest, FewNeuronsDoNotPayForARoundTrip) {
  Problem problem = TestModelProblem(1, 400, 512, 1.0, 3);
  Layer& layer = problem.layers[0];
  layer.attention = layer.predictor = {};
  problem.head = {};
  problem.hardware.launch_seconds = 0.0;
  double all = 0.0;
  for (const float fires : layer.neurons.frequency) {
    all += layer.neurons.Expected(layer.neurons.host, fires);
  }
  const double on_host = all / problem.hardware.host_rate;
  problem.hardware.sync_seconds = on_host;
  EXPECT_TRUE(SolveNative(problem)->placement.layers[0].neurons.empty());
  problem.hardware.sync_seconds = 0.5 * on_host;
  const size_t enough =
      SolveNative(problem)->placement.layers[0].neurons.size();
  EXPECT_GT(enough, 0u);
  // A budget for a few does not pay; without the round trip it does.
  problem.budget = NeuronBytes(layer.neurons, enough / 40);
  EXPECT_TRUE(SolveNative(problem)->placement.layers[0].neurons.empty());
  problem.hardware.sync_seconds = 0.0;
  EXPECT_EQ(SolveNative(problem)->placement.layers[0].neurons.size(),
            enough / 40);
}

TEST(NativeTest, RulesAreKeptAndRefusedWhereTheyDoNotFit) {
  Problem problem = TestModelProblem(3, 301, 256, 0.95, 3);
  problem.layers[0].attention.rule = Rule::kHost;
  problem.layers[1].neurons.rule = Rule::kDevice;
  problem.layers[2].neurons.rule = Rule::kHost;
  problem.head.rule = Rule::kDevice;
  const Result<Solution> solution = SolveNative(problem);
  ASSERT_TRUE(solution.has_value()) << solution.error().message;
  EXPECT_TRUE(CheckPlacement(problem, solution->placement).has_value());
  EXPECT_EQ(solution->placement.layers[1].neurons.size(), 301u);
  problem.budget = 1000;
  const Result<Solution> none = SolveNative(problem);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(none.error().message.find("takes"), std::string::npos);
}

TEST(NativeTest, NothingToPlaceIsAPlacement) {
  Problem problem;
  EXPECT_TRUE(SolveNative(problem)->placement.layers.empty());
  problem.layers.resize(2);
  const Result<Solution> solution = SolveNative(problem);
  ASSERT_TRUE(solution.has_value());
  EXPECT_EQ(solution->placement, AllOnHost(problem));
  EXPECT_EQ(solution->gap(), 0.0);
}

}  // namespace
}  // namespace thermocline::planner
