#include "planner/hottest.h"

#include <gtest/gtest.h>

#include "planner/cost.h"
#include "planner/test_problem.h"

namespace thermocline::planner {
namespace {

TEST(HottestTest, TheMostFrequentThatFitAreThere) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Problem problem = RandomProblem(seed, 100);
    Placement placement = AllOnHost(problem);
    PlaceHottest(problem, OpenItems(problem), placement);
    EXPECT_LE(DeviceBytes(problem, placement), problem.budget);
    // Nobody who is not there is hotter than who is, in the same layer.
    for (size_t i = 0; i < problem.layers.size(); ++i) {
      const Neurons& neurons = problem.layers[i].neurons;
      std::vector<bool> there(neurons.count());
      float coldest = 2.0f, hottest = -1.0f;
      for (const uint32_t n : placement.layers[i].neurons) {
        there[n] = true;
        coldest = std::min(coldest, neurons.frequency[n]);
      }
      for (size_t n = 0; n < there.size(); ++n) {
        if (!there[n]) hottest = std::max(hottest, neurons.frequency[n]);
      }
      EXPECT_GE(coldest, hottest) << seed << " " << i;
    }
  }
}

TEST(HottestTest, ClosedLayersAreLeftOut) {
  Problem problem = TestModelProblem(3, 10, 64, 1.0, 1);
  problem.layers[0].neurons.rule = Rule::kHost;
  problem.layers[1].neurons.rule = Rule::kDevice;
  EXPECT_EQ(OpenItems(problem).size(), 10u);
}

}  // namespace
}  // namespace thermocline::planner
