// Layers that differ in their heads and in the width of their FFNs.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compute/test_compute.h"
#include "engine/session.h"
#include "engine/testing/reference.h"
#include "engine/testing/tiny_model.h"

namespace thermocline::engine {
namespace {

using testing::DecodeAll;
using testing::kFloatNmse;
using testing::MakeTinyModel;
using testing::Nmse;
using testing::RandomTokens;
using testing::TinySpec;

TinySpec UnlikeSpec(const std::string& architecture, size_t head_width) {
  TinySpec spec;
  testing::UseArchitecture(architecture, spec);
  testing::UseUnlikeLayers(head_width, spec);
  return spec;
}

// Against double precision: heads of one width, and of several, whose angles
// are other ones.
TEST(UnlikeLayers, AreComputedAsTheReferenceDoes) {
  for (const char* architecture :
       {"llama", "qwen3", "falcon", "opt", "mixtral", "nemotron"}) {
    for (const size_t head_width : {0, 16}) {
      const TinySpec spec = UnlikeSpec(architecture, head_width);
      const auto model = MakeTinyModel(spec);
      ASSERT_NE(model, nullptr);
      const auto tokens = RandomTokens(9, spec.vocab_size);
      const auto reference = testing::ReferenceLogits(*model, tokens);
      for (const kernels::Isa isa : compute::testing::IsasOfModels()) {
        for (const Phase phase : kPhases) {
          EXPECT_LE(
              Nmse(DecodeAll(model, tokens, {.isa = isa}, phase), reference),
              kFloatNmse)
              << architecture << ", heads of " << head_width << ", "
              << kernels::NameOf(isa);
        }
      }
    }
  }
}

// One of the layers as another is noticed: heads, angles.
TEST(UnlikeLayers, AreNotTakenForEachOther) {
  const TinySpec spec = UnlikeSpec("llama", 0);
  const auto model = MakeTinyModel(spec);
  ASSERT_NE(model, nullptr);
  const auto tokens = RandomTokens(9, spec.vocab_size);
  const auto logits = DecodeAll(model, tokens);
  ASSERT_EQ(model->config().ropes.size(), 3u);
  model::Config unrotated = model->config();
  unrotated.layers[1].attention.rope = model::AttentionSpec::kNoRope;
  model::Config narrow_angles = model->config();
  narrow_angles.layers[1].attention.rope =
      narrow_angles.layers[0].attention.rope;
  for (const model::Config& wrong : {unrotated, narrow_angles}) {
    EXPECT_GT(
        Nmse(logits, testing::ReferenceLogits(wrong, model->weights(), tokens)),
        1000 * kFloatNmse);
  }
}

std::vector<float> GenerateAll(const std::shared_ptr<const model::Model>& model,
                               const std::vector<text::TokenId>& tokens,
                               const SessionOptions& options) {
  return DecodeAll(model, tokens, options, Phase::kGenerate);
}

// Where zeros are exact, leaving neurons out changes nothing.
TEST(UnlikeLayers, ExactIsDense) {
  for (const char* architecture : {"llama", "mixtral", "opt"}) {
    TinySpec spec = UnlikeSpec(architecture, 16);
    spec.activation = "relu";
    const auto bundled = testing::OpenTinyModel(spec, {.bundle_at_load = true});
    ASSERT_TRUE(bundled.has_value()) << bundled.error().message;
    const auto tokens = RandomTokens(9, spec.vocab_size);
    const auto dense = GenerateAll(*bundled, tokens, {.ffn = FfnMode::kDense});
    EXPECT_EQ(GenerateAll(*bundled, tokens,
                          {.num_threads = 3, .ffn = FfnMode::kExact}),
              dense)
        << architecture;
    EXPECT_LE(Nmse(dense, testing::ReferenceLogits(**bundled, tokens)),
              kFloatNmse);
  }
}

// Observers are told of each layer's own neurons.
TEST(UnlikeLayers, AreObservedWithTheirNeurons) {
  TinySpec spec = UnlikeSpec("llama", 0);
  spec.activation = "relu";
  const auto model = MakeTinyModel(spec);
  ASSERT_NE(model, nullptr);
  size_t num_seen = 0;
  for (const FfnMode mode : {FfnMode::kDense, FfnMode::kExact}) {
    SessionOptions options = {.ffn = mode};
    options.observer = [&](const FfnObservation& seen) {
      const size_t layer_idx = seen.layer_idx;
      const size_t f = spec.layers[layer_idx].ffn_width;
      EXPECT_EQ(seen.candidates.size(), f);
      EXPECT_EQ(seen.candidates.back(), f - 1);
      EXPECT_LT(seen.fired.size(), f);
      EXPECT_GT(seen.fired.size(), f / 4);
      if (mode == FfnMode::kDense) EXPECT_EQ(seen.gate.size(), f);
      ++num_seen;
    };
    DecodeAll(model, RandomTokens(3, spec.vocab_size), options);
  }
  EXPECT_EQ(num_seen, 2u * 3 * 4);
}

}  // namespace
}  // namespace thermocline::engine
