#include <gtest/gtest.h>

#include "planner/check.h"
#include "planner/cost.h"
#include "planner/test_problem.h"

namespace thermocline::planner {
namespace {

// Any placement, good or not.
Placement DrawPlacement(const Problem& problem, Random& random) {
  Placement placement = AllOnHost(problem);
  placement.scheme = static_cast<Scheme>(random.Below(4));
  const double density = random.Uniform();
  const auto draw = [&] { return random.Uniform() < density; };
  placement.head = draw();
  for (size_t i = 0; i < problem.layers.size(); ++i) {
    const Layer& layer = problem.layers[i];
    LayerPlace& place = placement.layers[i];
    place.attention = draw();
    place.predictor = layer.predictor.exists() && draw();
    place.matrices = layer.matrices.exists() && draw();
    for (uint32_t n = 0; n < layer.neurons.count(); ++n) {
      if (draw()) place.neurons.push_back(n);
    }
    for (uint32_t e = 0; e < layer.experts.experts.size(); ++e) {
      if (draw()) place.experts.push_back(e);
    }
  }
  return placement;
}

TEST(CheckTimeTest, TwoReckoningsOfAnyPlacementAgree) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Problem problem = RandomProblem(seed, 70);
    Random random(seed);
    for (Layer& layer : problem.layers) {
      for (Rule* rule : {&layer.attention.rule, &layer.neurons.rule,
                         &layer.experts.rule, &problem.head.rule}) {
        if (random.Below(4) == 0) *rule = Rule::kHost;
      }
    }
    const Placement placement = DrawPlacement(problem, random);
    const double seconds = PredictCost(problem, placement).seconds;
    EXPECT_NEAR(AuditSeconds(problem, placement), seconds, 1e-12 * seconds)
        << seed;
  }
}

}  // namespace
}  // namespace thermocline::planner
