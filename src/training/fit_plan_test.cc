#include "training/fit_plan.h"

#include "base/remedy.h"
#include "base/units.h"
#include "synth/shape.h"
#include "training/fit.h"
#include "training/testing.h"

namespace thermocline::training {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class PlanFitTest : public ::testing::Test {
 protected:
  Result<FitPlan> Plan() { return PlanFit(*model_, corpus_, options_); }
  // The least memory, to 1 KiB, that is enough.
  uint64_t LeastBytes() {
    uint64_t too_few = 0;
    uint64_t enough = 8 * kGiB;
    while (enough - too_few > kKiB) {
      options_.max_memory_bytes = (enough + too_few) / 2;
      (Plan() ? enough : too_few) = options_.max_memory_bytes;
    }
    return enough;
  }

  std::shared_ptr<const model::Model> model_ = OpenDemo();
  Corpus corpus_ = SmallCorpus(*model_, 256);
  FindOptions options_ = {.session = {.num_threads = 1}, .max_samples = 4096};
  const uint64_t sample_bytes_ = SampleBytes(256, {.num_neurons = 1536});
};

TEST_F(PlanFitTest, EverythingAtOnceIfItFits) {
  const auto plan = Plan();
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->num_samples, 4096u);
  EXPECT_EQ(plan->groups, std::vector<LayerRange>({{0, 6}}));
}

TEST_F(PlanFitTest, NoMoreSamplesThanTokens) {
  options_.max_samples = size_t{1} << 40;
  const auto plan = Plan();
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->num_samples, corpus_.num_tokens());
}

// First fewer layers at once, then fewer samples, then an error.
TEST_F(PlanFitTest, LessMemory) {
  const uint64_t least = LeastBytes();
  options_.max_memory_bytes = least;
  auto plan = Plan();
  ASSERT_TRUE(plan);
  EXPECT_GE(plan->num_samples, 1024u);
  EXPECT_LE(plan->num_samples, 1024 + kKiB / sample_bytes_ + 1);
  EXPECT_EQ(plan->groups.size(), 6u);
  options_.max_memory_bytes = least + 3072 * sample_bytes_;
  plan = Plan();
  ASSERT_TRUE(plan);
  EXPECT_GE(plan->num_samples, 4090u);
  EXPECT_EQ(plan->groups.size(), 6u);
  options_.max_memory_bytes = least + (3072 + 2 * 4096) * sample_bytes_;
  plan = Plan();
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->groups, std::vector<LayerRange>({{0, 3}, {3, 6}}));

  options_.max_memory_bytes = least - 4 * kKiB;
  plan = Plan();
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(plan.error().message, AllOf(HasSubstr("samples of one layer"),
                                          HasSubstr("are allowed")));
  EXPECT_EQ(plan.error().advice.remedy, Remedy::kSmallerFit);
}

// The inputs of the layers before are held too, and what is guessed from them.
TEST_F(PlanFitTest, LookaheadsTakeMore) {
  const uint64_t least = LeastBytes();
  const double guess = 4 * 256 * 256 * sizeof(float);
  options_.lookahead = 1;
  EXPECT_NEAR(static_cast<double>(LeastBytes() - least) - guess,
              static_cast<double>(1024 * sample_bytes_), 2.0 * kKiB);
  options_.reports_ahead = true;
  EXPECT_NEAR(static_cast<double>(LeastBytes() - least) - guess,
              static_cast<double>(3 * 1024 * sample_bytes_), 2.0 * kKiB);
}

// Of the smallest weights that are usual.
TEST(FitBytesTest, ModelsOfTheUsualShapesFitInAFourthOfThemAndAGigabyte) {
  for (const synth::SynthShape& shape : synth::SynthShapes()) {
    const uint64_t ffn =
        shape.parts_per_neuron() * shape.ffn_width * shape.width;
    const uint64_t attention =
        2 * shape.width * (shape.width + shape.kv_width());
    const uint64_t num_ffns = std::max<uint64_t>(1, shape.num_experts);
    const uint64_t num_weights =
        shape.num_layers * (num_ffns * ffn + attention) +
        shape.vocab_size * shape.width;
    model::Config config;
    config.width = shape.width;
    config.layers = {
        model::LayerSpec{.ffn = {.width = shape.ffn_width,
                                 .num_experts = shape.num_experts,
                                 .num_experts_used = shape.experts_used}}};
    const size_t max_rank = MaxRank(shape.width, shape.ffn_width, DType::kQ8_0,
                                    BytesOf(DType::kQ4_0, ffn) / 10);
    for (const size_t num_before : {0, 1}) {
      if (num_before > 0 && shape.num_experts > 0) continue;
      const uint64_t need =
          FitBytes(config, max_rank, num_before > 0) +
          (1 + num_before) * 4096 * SampleBytes(shape.width, NeuronsOf(config));
      EXPECT_LE(need, BytesOf(DType::kQ4_0, num_weights) / 4 + kGiB)
          << shape.name << ", " << num_before << " layers before";
    }
  }
}

}  // namespace
}  // namespace thermocline::training
