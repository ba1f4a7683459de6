#include <gtest/gtest.h>

#include "planner/check.h"
#include "planner/named.h"
#include "planner/test_problem.h"

namespace thermocline::planner {
namespace {

TEST(HotNeuronsTest, ASplitBecomesAPlacementAsFarAsItFits) {
  Problem problem = TestModelProblem(2, 20, 64, 1.0, 1);
  const model::HotNeurons hot = {.vram_bytes = 1,
                                 .layers = {{0, 1, 5, 19}, {}}};
  const Result<Placement> all = PlaceHotNeurons(problem, hot);
  ASSERT_TRUE(all.has_value());
  EXPECT_TRUE(CheckPlacement(problem, *all).has_value());
  EXPECT_TRUE(all->head && all->layers[0].attention &&
              all->layers[1].predictor);
  EXPECT_EQ(all->layers[0].neurons, hot.layers[0]);
  EXPECT_TRUE(all->layers[1].neurons.empty());

  // The hottest of them in what the parts leave.
  problem.layers[0].neurons.frequency.assign(20, 0.1f);
  problem.layers[0].neurons.frequency[5] = 0.9f;
  problem.layers[0].neurons.other_bytes = 0;
  problem.layers[0].neurons.record_bytes = kPieceBytes;
  problem.budget = AllBytes(problem) -
                   NeuronBytes(problem.layers[0].neurons, 20) -
                   NeuronBytes(problem.layers[1].neurons, 20) + kPieceBytes;
  const Result<Placement> one = PlaceHotNeurons(problem, hot);
  ASSERT_TRUE(one.has_value());
  EXPECT_EQ(one->layers[0].neurons, (std::vector<uint32_t>{5}));
}

TEST(HotNeuronsTest, ASplitOfAnotherShapeIsRefused) {
  const Problem problem = TestModelProblem(2, 20, 64, 1.0, 1);
  const Result<Placement> layers = PlaceHotNeurons(problem, {.layers = {{0}}});
  ASSERT_FALSE(layers.has_value());
  EXPECT_EQ(layers.error().message,
            "a split of 1 layer, for a model of 2 "
            "layers");
  const Result<Placement> neurons =
      PlaceHotNeurons(problem, {.layers = {{}, {20}}});
  ASSERT_FALSE(neurons.has_value());
  EXPECT_EQ(neurons.error().message,
            "a split names neuron 20 of layer 1, which has 20");
  Problem whole = problem;
  whole.layers[1].neurons = {};
  EXPECT_EQ(PlaceHotNeurons(whole, {.layers = {{}, {3}}}).error().message,
            "a split names 1 neuron of layer 1, whose FFN is not placed by "
            "neurons");
}

}  // namespace
}  // namespace thermocline::planner
