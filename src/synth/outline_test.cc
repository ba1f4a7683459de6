#include "synth/outline.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <numeric>
#include <string>

#include "model/model.h"
#include "synth/synth.h"

namespace thermocline::synth {
namespace {

std::string OutlinePath() {
  return ::testing::TempDir() + "outline_" + std::to_string(::getpid()) +
         ".gguf";
}

// What is outlined is what is written: every key but the vocabulary's, every
// tensor's type and shape, the bytes of all vectors.
TEST(SynthOutlineTest, IsTheFileWithoutItsMatrices) {
  for (const char* like : {"tiny", "tiny-opt", "tiny-falcon", "tiny-mixtral",
                           "tiny-nemotron", "tiny-moe"}) {
    SCOPED_TRACE(like);
    const SynthWeights weights(PlanSynth({.like = like, .seed = 4}).value());
    const std::string path = OutlinePath();
    ASSERT_TRUE(WriteSynthModel(weights, SynthLayout::kPrepared, path, {}));
    const auto written = model::Model::Open(path);
    ASSERT_TRUE(written) << written.error().message;
    auto outline = OutlineOf(weights);
    ASSERT_TRUE(outline) << outline.error().message;
    const gguf::File& file = **outline;
    for (const gguf::TensorInfo& there : (*written)->file().tensors()) {
      SCOPED_TRACE(there.name);
      const gguf::TensorInfo* here = file.FindTensor(there.name);
      ASSERT_NE(here, nullptr);
      EXPECT_EQ(here->dtype, there.dtype);
      EXPECT_EQ(here->shape, there.shape);
      if (there.shape.num_rows() > 1) continue;
      EXPECT_EQ(std::memcmp(here->data, there.data, there.num_bytes), 0);
    }
    for (const gguf::KeyValue& kv : (*written)->file().metadata()) {
      if (kv.key.starts_with("tokenizer.")) continue;
      EXPECT_NE(file.Find(kv.key), nullptr) << kv.key;
    }
    const auto model = model::Model::FromFile(*std::move(outline));
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model::FingerprintOf(**model), model::FingerprintOf(**written));
    EXPECT_EQ(model::ReadProfile((*model)->file()).value(),
              model::ReadProfile((*written)->file()).value());
    std::filesystem::remove(path);
  }
}

TEST(SynthOutlineTest, OfALargeModelTakesLittleMemory) {
  const SynthWeights weights(
      PlanSynth({.like = "falcon-40b", .dtype = DType::kF16}).value());
  const uint64_t before = os::ReadProcessMemory().anonymous_bytes;
  const auto outline = OutlineOf(weights);
  ASSERT_TRUE(outline) << outline.error().message;
  EXPECT_GT((*outline)->num_file_bytes(), uint64_t{80} << 30);
  EXPECT_LT(os::ReadProcessMemory().anonymous_bytes,
            before + (uint64_t{512} << 20));
}

TEST(SynthOutlineTest, ProfilesAreWhatWasAskedFor) {
  const SynthWeights dense(
      PlanSynth({.like = "tiny", .density = 0.2, .skew = 0.4}).value());
  const auto of_dense = ExpectedProfile(dense);
  ASSERT_TRUE(of_dense) << of_dense.error().message;
  EXPECT_NEAR(of_dense->profile.density(), 0.2, 1e-5);
  EXPECT_NEAR(of_dense->profile.skew(), 0.4, 1e-3);
  EXPECT_NEAR(of_dense->profile.locality().value(), 0.6, 1e-9);
  EXPECT_NE(of_dense->profile.layers[0].counts,
            of_dense->profile.layers[1].counts);

  // Each of the experts that is chosen fires as asked, and nobody else.
  for (const std::optional<double> skew : {std::optional<double>(), {0.5}}) {
    const SynthWeights mixture(
        PlanSynth({.like = "tiny-mixtral", .expert_skew = skew}).value());
    const SynthShape& shape = mixture.plan().shape;
    const double used = static_cast<double>(shape.experts_used) /
                        static_cast<double>(shape.num_experts);
    const std::vector<uint32_t> counts = ExpectedCounts(mixture, 1);
    const auto sum = static_cast<double>(
        std::accumulate(counts.begin(), counts.end(), uint64_t{0}));
    EXPECT_NEAR(sum / static_cast<double>(counts.size() * kExpectedTokens),
                0.1 * used, 1e-4);
    uint64_t first = 0;
    for (size_t i = 0; i < shape.ffn_width; ++i) first += counts[i];
    EXPECT_EQ(std::abs(static_cast<double>(first) / sum -
                       1.0 / static_cast<double>(shape.num_experts)) < 1e-3,
              !skew.has_value());
  }
}

// A neuron that is busy in one of two topics is half as busy in both.
TEST(SynthOutlineTest, TopicsShareATextAmongThem) {
  const auto skew = [](uint64_t num_topics) {
    const SynthWeights weights(
        PlanSynth({.like = "tiny", .num_topics = num_topics}).value());
    return ExpectedProfile(weights)->profile.skew();
  };
  EXPECT_NEAR(skew(1), 0.26, 1e-3);
  EXPECT_NEAR(skew(2), 0.35, 0.01);  // docs/synth.md: measured
  EXPECT_NEAR(skew(4), 0.439, 0.02);
}

}  // namespace
}  // namespace thermocline::synth
