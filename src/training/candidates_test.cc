#include "training/candidates.h"

#include "training/testing.h"

namespace thermocline::training {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// One hidden unit that is the input, and neurons that fire above i - 1.
pack::LayerPredictor Steps() {
  const std::vector<float> up = {1, 0};
  const std::vector<float> down = {1, 1, 1};
  return {.up = pack::EncodeMatrix(DType::kF16, 1, 2, up),
          .up_bias = {},
          .down = pack::EncodeMatrix(DType::kF16, 3, 1, down),
          .down_bias = {1, 0, -1}};
}

pack::PreparedParts TwoLayers(size_t lookahead) {
  pack::PreparedParts parts;
  parts.lookahead = lookahead;
  parts.predictors = {Steps(), Steps()};
  parts.self_test = {{.inputs = {2, 0, 0.5f, 0}, .fired = {{0}, {}}},
                     {.inputs = {-3, 0, 0, 0}, .fired = {{1}, {2}}}};
  return parts;
}

TEST(CandidatesTest, OfTheLayersOwnInputs) {
  const auto pool = TestPool(1);
  pack::PreparedParts parts = TwoLayers(0);
  AddCandidates(Gemm(pool.get()), {.num_neurons = 3}, parts);
  EXPECT_THAT(parts.self_test[0].candidates,
              ElementsAre(ElementsAre(0, 1, 2), ElementsAre(0, 1)));
  EXPECT_THAT(parts.self_test[1].candidates,
              ElementsAre(ElementsAre(0, 1), ElementsAre(0, 1)));
}

TEST(CandidatesTest, OfTheLayerBefore) {
  const auto pool = TestPool(1);
  pack::PreparedParts parts = TwoLayers(1);
  AddCandidates(Gemm(pool.get()), {.num_neurons = 3}, parts);
  EXPECT_EQ(parts.self_test[1].candidates, parts.self_test[0].candidates);
}

// Three experts of one neuron: what did not run has no candidates.
TEST(CandidatesTest, OfTheExpertsInUse) {
  const auto pool = TestPool(1);
  pack::PreparedParts parts = TwoLayers(0);
  parts.self_test[0].fired = {{0, 2}, {1}};
  AddCandidates(Gemm(pool.get()),
                {.num_neurons = 3, .num_experts = 3, .num_used = 2}, parts);
  EXPECT_THAT(parts.self_test[0].candidates,
              ElementsAre(ElementsAre(0, 2), ElementsAre(1)));
}

// Of two signs: neuron 1 differs in one from all inputs above 0, neuron 2 in
// both; the margin then wants the first element to be 1 and more.
TEST(CandidatesTest, OfTheFreePredictorsToo) {
  const auto pool = TestPool(1);
  pack::PreparedParts parts = TwoLayers(1);
  parts.predictors.clear();
  pack::LayerTrainingFree free = {.signs = {0b00, 0b01, 0b11},
                                  .max_differences = 1};
  parts.training_free = {free, std::nullopt};
  const Gemm gemm(pool.get());
  AddCandidates(gemm, {.num_neurons = 3}, parts);
  EXPECT_THAT(parts.self_test[0].free,
              ElementsAre(ElementsAre(0, 1), ElementsAre(0, 1)));
  EXPECT_THAT(parts.self_test[0].candidates, IsEmpty());
  EXPECT_THAT(parts.self_test[1].free, IsEmpty());
  const std::vector<float> up = {1, 0};
  const std::vector<float> down = {1, 1, 1};
  free.up = pack::EncodeMatrix(DType::kF16, 1, 2, up);
  free.down = pack::EncodeMatrix(DType::kF16, 3, 1, down);
  free.bias = {-1, 0, 0};
  // It reads its own layer's inputs, -3 and 0, whatever trained ones read.
  parts.training_free = {free, free};
  AddCandidates(gemm, {.num_neurons = 3}, parts);
  EXPECT_THAT(parts.self_test[0].free,
              ElementsAre(ElementsAre(0, 1), ElementsAre(1)));
  EXPECT_THAT(parts.self_test[1].free, ElementsAre(IsEmpty(), ElementsAre(1)));
}

TEST(CandidatesTest, NoneWhereThereIsNoPredictor) {
  const auto pool = TestPool(1);
  pack::PreparedParts parts = TwoLayers(0);
  parts.predictors[0].reset();
  AddCandidates(Gemm(pool.get()), {.num_neurons = 3}, parts);
  EXPECT_THAT(parts.self_test[0].candidates, IsEmpty());
  parts.predictors.clear();
  AddCandidates(Gemm(pool.get()), {.num_neurons = 3}, parts);
}

}  // namespace
}  // namespace thermocline::training
