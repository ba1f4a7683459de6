// Trained predictors on a device choose what the host's choose.

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cuda_on_host/control.h"
#include "device/cuda/find_cuda.h"
#include "engine/testing/test_placement.h"

namespace thermocline::engine {
namespace {

using testing::MakeLateSim;
using testing::Nmse;
using testing::PlacedParts;
using testing::PlacedRun;

constexpr PlacedParts kPredictorsAlone = {
    .attention = false, .predictors = true, .head = false};

struct PredictorCase {
  const char* name;
  void (*change)(testing::TinySpec& spec);
  PlacedParts parts;
};

constexpr PredictorCase kPredictorCases[] = {
    // Each but the first layer's speaks of the next layer; one has none.
    {"Lookahead",
     [](testing::TinySpec& spec) {
       testing::UseArchitecture("bamboo", spec);
       spec.num_layers = 4;
       spec.low_ranks = {8, 16, 0, 8};
       spec.both_downs = true;
     },
     kPredictorsAlone},
    // Some on the device, whose source layers' own ones are not.
    {"LookaheadOfSomeLayers",
     [](testing::TinySpec& spec) {
       testing::UseArchitecture("bamboo", spec);
       spec.num_layers = 4;
       spec.low_ranks = {8, 16, 8, 8};
       spec.both_downs = true;
     },
     {.attention = false,
      .predictors = true,
      .head = false,
      .first = 1,
      .end = 3}},
    {"OfTheirOwnLayer",
     [](testing::TinySpec& spec) {
       testing::UseArchitecture("llama", spec);
       spec.container = gguf::Container::kPowerInfer;
       spec.activation = "relu";
       spec.predictor_rank = 24;
       spec.down_t = true;
       spec.dtype = DType::kF16;
     },
     kPredictorsAlone},
    // With the layer's neurons, which begin when they are chosen.
    {"OfItsOwnLayersNeurons",
     [](testing::TinySpec& spec) {
       spec.activation = "relu";
       spec.predictor_rank = 24;
       spec.lookahead = 0;
       spec.both_downs = true;
     },
     {.predictors = true, .neurons = true}},
    // The first layer's own ones beside those of a wider layer.
    {"LookaheadToAWiderLayersNeurons",
     [](testing::TinySpec& spec) {
       testing::UseUnlikeLayers(0, spec);
       for (size_t i = 0; i < 4; ++i) spec.layers[i].ffn_width = 96 + 320 * i;
       spec.activation = "relu";
       spec.predictor_rank = 24;
       spec.lookahead = 1;
       spec.both_downs = true;
     },
     {.predictors = true, .neurons = true}},
    {"WithAttention",
     [](testing::TinySpec& spec) {
       testing::UseArchitecture("bamboo", spec);
       spec.low_ranks = {8, 16};
       spec.both_downs = true;
     },
     {.predictors = true}},
};

class HybridPredictor : public ::testing::TestWithParam<PredictorCase> {
 protected:
  // More rows than a device takes at once; prompts choose on the host.
  static std::vector<float> Talk(PlacedRun& run, bool is_short = false) {
    constexpr PlacedRun::Turn kSomeTurns[] = {{Phase::kPrompt, 4},
                                              {Phase::kGenerate, 1},
                                              {Phase::kGenerate, 3},
                                              {Phase::kGenerate, 11}};
    return run.Talk(std::span(kSomeTurns).first(is_short ? 3 : 4));
  }
};

TEST_P(HybridPredictor, ChoosesWhatTheHostChooses) {
  testing::TinySpec spec;
  GetParam().change(spec);
  const auto model = testing::MakeTinyModel(spec);
  ASSERT_NE(model, nullptr);
  const SessionOptions options = {.num_threads = 2, .ffn = FfnMode::kFast};
  PlacedRun host(model, options, nullptr);
  const std::vector<float> expected = Talk(host);
  const SparseTotals wanted = host.engine().sparse_totals();
  EXPECT_LT(wanted.num_candidates, wanted.num_neurons);
  PlacedRun hybrid(model, options, MakeLateSim(), GetParam().parts);
  ASSERT_TRUE(hybrid.status()) << hybrid.status().error().message;
  EXPECT_LE(Nmse(Talk(hybrid), std::span<const float>(expected)), 1e-10);
  const SparseTotals totals = hybrid.engine().sparse_totals();
  EXPECT_EQ(totals.num_candidates, wanted.num_candidates);
  EXPECT_EQ(totals.num_union_candidates, wanted.num_union_candidates);
  // What predictors read is not the host's.
  EXPECT_LT(totals.num_bytes, wanted.num_bytes);
}

INSTANTIATE_TEST_SUITE_P(Models, HybridPredictor,
                         ::testing::ValuesIn(kPredictorCases),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

// Training-free ones are the host's, whatever the placement says.
TEST(HybridTrainingFree, StaysOnTheHost) {
  testing::TinySpec spec;
  kPredictorCases[5].change(spec);
  const auto model = testing::OpenTinyModel(spec, {.bundle_at_load = true});
  ASSERT_TRUE(model) << model.error().message;
  const SessionOptions options = {.num_threads = 2,
                                  .ffn = FfnMode::kFast,
                                  .predictor = PredictorChoice::kTrainingFree};
  constexpr PlacedRun::Turn kFew[] = {{Phase::kPrompt, 4},
                                      {Phase::kGenerate, 2}};
  const auto expected = PlacedRun(*model, options, nullptr).Talk(kFew);
  const auto device = MakeLateSim();
  PlacedRun hybrid(*model, options, device, kPredictorsAlone);
  ASSERT_TRUE(hybrid.status());
  const uint64_t num_calls = device->num_calls();
  EXPECT_EQ(hybrid.Talk(kFew), expected);
  EXPECT_EQ(device->num_calls(), num_calls);
}

// The GPU's own kernels, emulated.
class HybridPredictorOnCuda : public ::testing::TestWithParam<PredictorCase> {};

TEST_P(HybridPredictorOnCuda, ChoosesWhatTheHostChooses) {
  testing::TinySpec spec;
  GetParam().change(spec);
  spec.dtype = DType::kF16;
  const auto model = testing::MakeTinyModel(spec);
  ASSERT_NE(model, nullptr);
  const SessionOptions options = {.num_threads = 2, .ffn = FfnMode::kFast};
  constexpr PlacedRun::Turn kFew[] = {
      {Phase::kPrompt, 2}, {Phase::kGenerate, 1}, {Phase::kGenerate, 3}};
  const auto expected = PlacedRun(model, options, nullptr).Talk(kFew);
  cuda_on_host::ReviveDevice(5, true);
  auto device = device::OpenCuda(0);
  ASSERT_TRUE(device) << device.error().message;
  {
    PlacedRun hybrid(model, options, *std::move(device), GetParam().parts);
    ASSERT_TRUE(hybrid.status()) << hybrid.status().error().message;
    EXPECT_LE(Nmse(hybrid.Talk(kFew), std::span<const float>(expected)), 1e-9);
  }
  EXPECT_EQ(cuda_on_host::TakeFault(), "");
}

INSTANTIATE_TEST_SUITE_P(
    Models, HybridPredictorOnCuda,
    ::testing::ValuesIn(std::span(kPredictorCases).last(3)),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace thermocline::engine
