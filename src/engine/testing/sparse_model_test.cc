// Models with predictors as a whole: PowerInfer's golden files and small ones
// of every architecture in KAIROX's format, against a pass in double.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "engine/session.h"
#include "engine/testing/reference_predictor.h"
#include "engine/testing/tiny_model.h"
#include "model/test_split.h"
#include "os/test_folder.h"

namespace thermocline::engine::testing {
namespace {

using ::testing::HasSubstr;

// Scores that rounding may move across the threshold.
constexpr double kMargin = 1e-3;

struct SparseRun {
  std::vector<float> logits;
  ActiveSets active;
};

SparseRun RunFast(const std::shared_ptr<const model::Model>& model,
                  const std::vector<text::TokenId>& tokens, int64_t batch = 512,
                  int num_threads = 2) {
  SparseRun run;
  SessionOptions options;
  options.ffn = FfnMode::kFast;
  options.batch = batch;
  options.num_threads = num_threads;
  options.observer = [&](const FfnObservation& seen) {
    const size_t layer_idx = seen.layer_idx;
    if (!model->weights().layers[layer_idx].predictor.up) return;
    const bool is_new =
        run.active
            .insert({{seen.layer_idx, seen.position},
                     {seen.candidates.begin(), seen.candidates.end()}})
            .second;
    EXPECT_TRUE(is_new) << "layer " << layer_idx << ", position "
                        << seen.position;
  };
  run.logits = DecodeAll(model, tokens, options);
  return run;
}

// The golden files, by name.
constexpr const char* kGoldens[] = {"llama-f16", "llama-thr-f16", "bamboo-f16",
                                    "falcon-f16", "opt-f16"};
std::shared_ptr<const model::Model> OpenGolden(
    const std::string& name, const model::OpenOptions& options = {}) {
  const auto model =
      model::Model::Open(std::string(TC_TEST_DATA) + "/golden-powerinfer/" +
                             name + ".powerinfer.gguf",
                         options);
  EXPECT_TRUE(model.has_value()) << model.error().message;
  return model.has_value() ? *model : nullptr;
}

TEST(PowerInferModel, ActiveSetsAndLogitsAreTheReferences) {
  for (const char* name : kGoldens) {
    SCOPED_TRACE(name);
    const auto model = OpenGolden(name);
    ASSERT_NE(model, nullptr);
    const auto tokens = RandomTokens(6, model->config().vocab_size);
    const SparseRun run = RunFast(model, tokens);
    const MaskedReference reference = RunMaskedReference(*model, tokens);
    ExpectActiveSets(run.active, reference, model->config().predictor.threshold,
                     kMargin);
    EXPECT_LE(Nmse(run.logits, reference.logits), 1e-9);
  }
}

// The largest share of a layer's neurons that is active.
double LargestShare(const SparseRun& run, size_t num_neurons) {
  size_t most = 0;
  for (const auto& [place, active] : run.active) {
    most = std::max(most, active.size());
  }
  return static_cast<double>(most) / static_cast<double>(num_neurons);
}

// Where nearly all neurons are active all would be faster, and wrong.
TEST(PowerInferModel, TheMaskHoldsHoweverManyItLeaves) {
  for (const char* name : kGoldens) {
    SCOPED_TRACE(name);
    model::OpenOptions options;
    options.overrides.predictor_threshold = -0.6f;
    const auto model = OpenGolden(name, options);
    ASSERT_NE(model, nullptr);
    const auto tokens = RandomTokens(6, model->config().vocab_size);
    const SparseRun run = RunFast(model, tokens);
    EXPECT_GT(LargestShare(run, MaxFfnWidth(model->config())), 0.76);
    const MaskedReference reference = RunMaskedReference(*model, tokens);
    ExpectActiveSets(run.active, reference, -0.6, kMargin);
    EXPECT_LE(Nmse(run.logits, reference.logits), 1e-9);
    EXPECT_GT(Nmse(run.logits, ReferenceLogits(*model, tokens)), 1e-3);
  }
}

// Feeding these predictors what the FFN reads runs and ruins the result: the
// comparisons must notice it.
TEST(PowerInferModel, ReadingTheNormedInputIsNoticed) {
  for (const char* name : kGoldens) {
    SCOPED_TRACE(name);
    const auto model = OpenGolden(name);
    ASSERT_NE(model, nullptr);
    const auto tokens = RandomTokens(6, model->config().vocab_size);
    const SparseRun run = RunFast(model, tokens);
    const MaskedReference wrong =
        RunMaskedReference(*model, tokens, PredictorInput::kNormed);
    // Twice what golden_powerinfer_test.cc lets pass.
    EXPECT_GT(Nmse(run.logits, wrong.logits), 4e-3);
  }
}

TEST(PowerInferModel, DenseIgnoresTheMask) {
  for (const char* name : kGoldens) {
    SCOPED_TRACE(name);
    const auto model = OpenGolden(name);
    ASSERT_NE(model, nullptr);
    const auto tokens = RandomTokens(6, model->config().vocab_size);
    SessionOptions options;
    options.ffn = FfnMode::kDense;
    const size_t num_neurons = MaxFfnWidth(model->config());
    options.observer = [&](const FfnObservation& seen) {
      EXPECT_EQ(seen.candidates.size(), num_neurons);
      EXPECT_EQ(seen.gate.size(), num_neurons);
    };
    EXPECT_LE(Nmse(DecodeAll(model, tokens, options),
                   ReferenceLogits(*model, tokens)),
              1e-9);
  }
}

// KAIROX's files: both forms of down, ranks that differ, one layer without.
TinySpec KairoxSpec(const std::string& architecture) {
  TinySpec spec;
  UseArchitecture(architecture, spec);
  spec.num_layers = 4;
  spec.both_downs = true;
  spec.low_ranks = {32, 8, 0, 24};
  return spec;
}
constexpr const char* kKairoxArchitectures[] = {
    "prosparse-llama", "bamboo", "sparse-qwen2", "relu-falcon", "opt"};

TEST(KairoxModel, EveryArchitectureIsTheReference) {
  for (const char* architecture : kKairoxArchitectures) {
    for (const bool biases : {true, false}) {
      SCOPED_TRACE(std::string(architecture) + (biases ? " with biases" : ""));
      TinySpec spec = KairoxSpec(architecture);
      spec.predictor_biases = biases;
      const auto model = MakeTinyModel(spec);
      ASSERT_NE(model, nullptr);
      const auto tokens = RandomTokens(6, spec.vocab_size);
      const SparseRun run = RunFast(model, tokens);
      const MaskedReference reference = RunMaskedReference(*model, tokens);
      EXPECT_EQ(reference.scores.size(), 3 * tokens.size());
      ExpectActiveSets(run.active, reference, 0.0, 1e-4);
      EXPECT_LE(Nmse(run.logits, reference.logits), 1e-9);
      if (!biases) continue;
      for (const PredictorInput wrong :
           {PredictorInput::kOwnLayer, PredictorInput::kUnnormed}) {
        EXPECT_GT(
            Nmse(run.logits, RunMaskedReference(*model, tokens, wrong).logits),
            1e-3);
      }
    }
  }
}

TEST(KairoxModel, TheMaskHoldsHoweverManyItLeaves) {
  for (const char* architecture : kKairoxArchitectures) {
    SCOPED_TRACE(architecture);
    const TinySpec spec = KairoxSpec(architecture);
    model::OpenOptions options;
    options.overrides.predictor_threshold = -1.0f;
    const auto model = OpenTinyModel(spec, options);
    ASSERT_TRUE(model.has_value()) << model.error().message;
    const auto tokens = RandomTokens(6, spec.vocab_size);
    const SparseRun run = RunFast(*model, tokens);
    EXPECT_GT(LargestShare(run, spec.ffn_width), 0.76);
    const MaskedReference reference = RunMaskedReference(**model, tokens);
    ExpectActiveSets(run.active, reference, -1.0, 1e-4);
    EXPECT_LE(Nmse(run.logits, reference.logits), 1e-9);
    EXPECT_GT(Nmse(run.logits, ReferenceLogits(**model, tokens)), 1e-4);
  }
}

TEST(KairoxModel, DenseIgnoresThePredictors) {
  for (const char* architecture : kKairoxArchitectures) {
    SCOPED_TRACE(architecture);
    const auto model = MakeTinyModel(KairoxSpec(architecture));
    ASSERT_NE(model, nullptr);
    const auto tokens = RandomTokens(6, model->config().vocab_size);
    SessionOptions options;
    options.ffn = FfnMode::kDense;
    EXPECT_LE(Nmse(DecodeAll(model, tokens, options),
                   ReferenceLogits(*model, tokens)),
              1e-9);
  }
}

// The first layer may be the one without, and all but one may be.
TEST(KairoxModel, AnyLayerMayLackAPredictor) {
  const std::vector<std::vector<size_t>> all_ranks = {
      {0, 8, 0, 8}, {8, 0, 0, 0}, {0, 0, 0, 8}};
  for (const auto& ranks : all_ranks) {
    TinySpec spec = KairoxSpec("bamboo");
    spec.low_ranks = ranks;
    const auto model = MakeTinyModel(spec);
    ASSERT_NE(model, nullptr);
    const auto tokens = RandomTokens(7, spec.vocab_size);
    const SparseRun run = RunFast(model, tokens);
    const MaskedReference reference = RunMaskedReference(*model, tokens);
    ExpectActiveSets(run.active, reference, 0.0, 1e-4);
    EXPECT_LE(Nmse(run.logits, reference.logits), 1e-9);
  }
}

TEST(KairoxModel, WithoutTheTransposedDownTheResultIsTheSame) {
  TinySpec spec = KairoxSpec("prosparse-llama");
  const auto model = MakeTinyModel(spec);
  spec.both_downs = false;
  const auto bare = MakeTinyModel(spec);
  ASSERT_TRUE(model != nullptr && bare != nullptr);
  // Other random numbers follow the tensor that is not there.
  const auto tokens = RandomTokens(6, spec.vocab_size);
  const SparseRun run = RunFast(bare, tokens);
  const MaskedReference reference = RunMaskedReference(*bare, tokens);
  ExpectActiveSets(run.active, reference, 0.0, 1e-4);
  EXPECT_LE(Nmse(run.logits, reference.logits), 1e-9);
}

// Quantised weights: predictors, rows and columns in blocks.
TEST(KairoxModel, QuantisedMatrices) {
  for (const DType dtype : {DType::kQ8_0, DType::kQ4_K}) {
    SCOPED_TRACE(NameOf(dtype));
    TinySpec spec = WideSpec(dtype);
    spec.architecture = "bamboo";
    spec.both_downs = true;
    spec.low_ranks = {256, 256};
    const auto model = MakeTinyModel(spec);
    ASSERT_NE(model, nullptr);
    const auto tokens = RandomTokens(6, spec.vocab_size);
    const SparseRun run = RunFast(model, tokens);
    const MaskedReference reference = RunMaskedReference(*model, tokens);
    // The engine rounds inputs to 8 bits: scores move, and neurons with them.
    ExpectActiveSets(run.active, reference, 0.0, 0.1);
    EXPECT_LE(Nmse(run.logits, reference.logits), 5e-3);
    EXPECT_EQ(RunFast(model, tokens, 512, 1).logits, run.logits);
    EXPECT_EQ(RunFast(model, tokens, 1, 1).logits, run.logits);
  }
}

TEST(SparseModel, SameBitsForEveryThreadCountAndCut) {
  for (const bool is_powerinfer : {true, false}) {
    TinySpec spec = KairoxSpec("bamboo");
    if (is_powerinfer) {
      spec.container = gguf::Container::kPowerInfer;
      spec.both_downs = false;
      spec.down_t = true;
      spec.low_ranks = {};
      spec.predictor_rank = 24;
    }
    spec.ffn_width = 1000;
    const auto model = MakeTinyModel(spec);
    ASSERT_NE(model, nullptr);
    const auto tokens = RandomTokens(13, spec.vocab_size);
    const SparseRun run = RunFast(model, tokens);
    for (const int num_threads : {1, 3, 7}) {
      for (const int64_t batch : {1, 5, 13}) {
        const SparseRun other = RunFast(model, tokens, batch, num_threads);
        EXPECT_EQ(other.logits, run.logits);
        EXPECT_EQ(other.active, run.active);
      }
    }
  }
}

// A split file's order changes the order of sums, nothing else.
TEST(SparseModel, AnotherOrderOfTheNeurons) {
  const os::TestFolder folder;
  for (const bool has_down_t : {true, false}) {
    TinySpec spec = KairoxSpec("bamboo");
    spec.both_downs = has_down_t;
    const auto plain = MakeTinyModel(spec);
    model::OpenOptions options;
    options.split_path =
        folder.Write("split", model::TestOrder(4, 160).Bytes());
    const auto ordered = OpenTinyModel(spec, options);
    ASSERT_TRUE(ordered.has_value()) << ordered.error().message;
    ASSERT_TRUE(plain != nullptr && (*ordered)->neuron_order() != nullptr);
    const auto tokens = RandomTokens(6, spec.vocab_size);
    const SparseRun expected = RunFast(plain, tokens);
    const SparseRun run = RunFast(*ordered, tokens);
    EXPECT_EQ(run.active, expected.active);
    EXPECT_LE(Nmse(run.logits, expected.logits), 1e-10);
    EXPECT_EQ(run.logits == expected.logits, !has_down_t);
    EXPECT_EQ(RunFast(*ordered, tokens, 2, 3).logits, run.logits);
  }
}

// Which neurons count is no guess of what is not finite.
TEST(SparseModel, PredictorsThatAreNotFiniteAreRefused) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                          -std::numeric_limits<float>::infinity()}) {
    TinySpec spec = KairoxSpec("bamboo");
    spec.edit = [bad](const std::string& name, std::span<float> values) {
      if (name == "blk.1.ffn_pred_down.bias") values[5] = bad;
    };
    const auto model = MakeTinyModel(spec);
    ASSERT_NE(model, nullptr);
    const auto session = Session::Create(model, {.ffn = FfnMode::kFast});
    ASSERT_TRUE(session.has_value()) << session.error().message;
    std::vector<float> logits(spec.vocab_size);
    for (const Phase phase : {Phase::kPrompt, Phase::kGenerate}) {
      const Status status = (*session)->Decode(RandomTokens(1, spec.vocab_size),
                                               phase, LogitsOf::kLast, logits);
      ASSERT_FALSE(status.has_value());
      EXPECT_EQ(status.error().code, ErrorCode::kCorrupt);
      EXPECT_THAT(status.error().message,
                  HasSubstr("layer 1: a predictor's scores are not finite"));
    }
  }
}

TEST(SparseModel, TheUsersThresholdCounts) {
  TinySpec spec = KairoxSpec("bamboo");
  model::OpenOptions options;
  options.overrides.predictor_threshold = 1e30f;
  const auto model = OpenTinyModel(spec, options);
  ASSERT_TRUE(model.has_value()) << model.error().message;
  const SparseRun run = RunFast(*model, RandomTokens(3, spec.vocab_size));
  for (const auto& [place, active] : run.active) EXPECT_TRUE(active.empty());
  EXPECT_EQ(run.active.size(), 9u);
}

TEST(SparseModel, ModesAreResolved) {
  const auto sparse = MakeTinyModel(KairoxSpec("bamboo"));
  const auto plain = MakeTinyModel(TinySpec());
  ASSERT_TRUE(sparse != nullptr && plain != nullptr);
  EXPECT_EQ((*Session::Create(sparse, {}))->ffn(), FfnMode::kFast);
  EXPECT_EQ((*Session::Create(sparse, {.ffn = FfnMode::kDense}))->ffn(),
            FfnMode::kDense);
  EXPECT_EQ((*Session::Create(plain, {}))->ffn(), FfnMode::kDense);
  const auto refused = Session::Create(plain, {.ffn = FfnMode::kFast});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("no predictors"));
}

}  // namespace
}  // namespace thermocline::engine::testing
