#include "planner/ilp.h"

#include <gtest/gtest.h>

#include "planner/check.h"
#include "planner/cost.h"
#include "planner/parts.h"
#include "planner/test_problem.h"

namespace thermocline::planner {
namespace {

// Neurons alone, at sizes where nothing is rounded up.
Problem NeuronProblem(uint64_t seed) {
  Random random(seed);
  Problem problem;
  problem.hardware = TestHardware();
  for (uint64_t i = 1 + random.Below(3); i > 0; --i) {
    Layer& layer = problem.layers.emplace_back();
    layer.neurons = TestNeurons(4 + random.Below(20), kPieceBytes, 0.3, random);
    layer.neurons.other_bytes = kPieceBytes * random.Below(3);
    layer.neurons.host.tested *= static_cast<double>(1 + random.Below(1000));
  }
  problem.budget = static_cast<uint64_t>(
      random.Uniform() * static_cast<double>(AllBytes(problem)));
  return problem;
}

// The most frequencies of placements in groups of `group`, of each layer none
// or the least number: as the paper says it.
double MostFrequencies(const Problem& problem, size_t layer_idx, uint64_t left,
                       size_t group, const std::vector<uint32_t>& least) {
  if (layer_idx == problem.layers.size()) return 0.0;
  const Neurons& neurons = problem.layers[layer_idx].neurons;
  std::vector<float> sorted = neurons.frequency;
  std::ranges::sort(sorted, std::greater());
  const size_t num_groups = (sorted.size() + group - 1) / group;
  double most = -1.0;
  for (uint32_t set = 0; set < 1u << num_groups; ++set) {
    double impact = 0.0;
    size_t count = 0;
    for (size_t i = 0; i < sorted.size(); ++i) {
      if ((set >> (i / group) & 1) == 0) continue;
      impact += static_cast<double>(sorted[i]);
      ++count;
    }
    const uint64_t bytes = NeuronBytes(neurons, count);
    if (bytes > left || (count > 0 && count < least[layer_idx])) continue;
    most = std::max(most, impact + MostFrequencies(problem, layer_idx + 1,
                                                   left - bytes, group, least));
  }
  return most;
}

double FrequenciesOf(const Problem& problem, const Placement& placement) {
  double sum = 0.0;
  for (size_t i = 0; i < problem.layers.size(); ++i) {
    for (const uint32_t neuron : placement.layers[i].neurons) {
      sum += static_cast<double>(problem.layers[i].neurons.frequency[neuron]);
    }
  }
  return sum;
}

TEST(IlpTest, HasThePapersObjectiveAsTryingAllHas) {
  if (!HasIlp()) GTEST_SKIP() << "CBC is not here: coinor-libcbc-dev";
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Problem problem = NeuronProblem(seed);
    constexpr size_t kGroup = 5;
    const std::vector<uint32_t> least = LeastThere(problem);
    const Result<IlpSolution> solution =
        SolveIlp(problem, {.group_size = kGroup, .max_gap = 0.0});
    ASSERT_TRUE(solution.has_value()) << solution.error().message;
    EXPECT_TRUE(solution->is_optimal);
    EXPECT_NEAR(solution->impact,
                MostFrequencies(problem, 0, problem.budget, kGroup, least),
                1e-5)
        << seed;
    EXPECT_NEAR(solution->impact, FrequenciesOf(problem, solution->placement),
                1e-5);
    Claims claims;
    claims.least_there = least;
    const Status checked = CheckPlacement(problem, solution->placement, claims);
    EXPECT_TRUE(checked.has_value()) << checked.error().message;
  }
}

TEST(IlpTest, TheLeastNumberPaysForARoundTrip) {
  Problem problem;
  Layer& layer = problem.layers.emplace_back();
  Hardware& hardware = problem.hardware;
  layer.neurons.host = layer.neurons.device = {.tested = 10, .rest = 20};
  layer.neurons.frequency.assign(100, 0.5f);
  hardware.host_rate = 1.0;
  hardware.device_rate = 3.0;
  hardware.sync_seconds = 100.0;  // each saves 20
  EXPECT_EQ(LeastThere(problem), (std::vector<uint32_t>{5}));
  hardware.sync_seconds = 101.0;
  EXPECT_EQ(LeastThere(problem), (std::vector<uint32_t>{6}));
  hardware.sync_seconds = 0.0;
  EXPECT_EQ(LeastThere(problem), (std::vector<uint32_t>{1}));
  hardware.sync_seconds = 2001.0;
  EXPECT_EQ(LeastThere(problem), (std::vector<uint32_t>{kNever}));
  hardware.device_rate = 1.0;
  EXPECT_EQ(LeastThere(problem), (std::vector<uint32_t>{kNever}));
  layer.neurons.frequency.clear();
  EXPECT_EQ(LeastThere(problem), (std::vector<uint32_t>{0}));
}

TEST(IlpTest, DrawsOfEveryKindPassTheChecker) {
  for (uint64_t seed = 100; seed < 140; ++seed) {
    const Problem problem = RandomProblem(seed, 400);
    const Result<Placement> hottest = PlaceByFrequency(problem);
    ASSERT_TRUE(hottest.has_value());
    EXPECT_TRUE(CheckPlacement(problem, *hottest).has_value()) << seed;
    if (!HasIlp()) continue;
    const Result<IlpSolution> solution = SolveIlp(problem, {});
    ASSERT_TRUE(solution.has_value());
    Claims claims;
    claims.least_there = LeastThere(problem);
    const Status checked = CheckPlacement(problem, solution->placement, claims);
    EXPECT_TRUE(checked.has_value()) << seed << checked.error().message;
    EXPECT_GE(solution->impact_bound, solution->impact - 1e-6);
  }
}

TEST(IlpTest, PartsComeBeforeNeurons) {
  Problem problem = TestModelProblem(2, 100, 64, 1.0, 1);
  uint64_t parts = 0;
  for (const WholePart& part : PartsOf(problem)) parts += part.bytes();
  problem.budget = parts + NeuronBytes(problem.layers[0].neurons, 3);
  const Result<Placement> placement = PlaceByFrequency(problem);
  ASSERT_TRUE(placement.has_value());
  EXPECT_TRUE(placement->head && placement->layers[0].attention &&
              placement->layers[1].attention);
  EXPECT_GE(
      placement->layers[0].neurons.size() + placement->layers[1].neurons.size(),
      1u);
}

}  // namespace
}  // namespace thermocline::planner
