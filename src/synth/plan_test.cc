#include "synth/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "synth/activity.h"
#include "synth/math.h"

namespace thermocline::synth {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const SynthOptions& options) {
  const auto plan = PlanSynth(options);
  return plan.has_value() ? "" : plan.error().message;
}

TEST(SynthPlanTest, PredictorsOfRealSizesTakeATenthOfTheFfn) {
  for (const SynthShape& shape : SynthShapes()) {
    if (shape.name.starts_with("tiny")) continue;
    const auto plan = PlanSynth({.like = std::string(shape.name)});
    ASSERT_TRUE(plan.has_value()) << plan.error().message;
    const double part = static_cast<double>(plan->predictor_bytes) /
                        static_cast<double>(plan->ffn_bytes);
    // Experts that are narrow leave less room than is needed.
    const bool is_narrow = shape.ffn_width < 1024;
    EXPECT_LE(part, is_narrow ? 0.25 : kPredictorShare) << shape.name;
    EXPECT_GE(part, 0.075) << shape.name;
    EXPECT_GE(plan->num_directions, is_narrow ? 32u : 64u);
    EXPECT_EQ(plan->num_directions % 16, 0u);
    EXPECT_GE(plan->rank, plan->needed_rank());
    EXPECT_GE(plan->powerinfer_rank, plan->needed_rank());
    EXPECT_LE(plan->num_directions, shape.kv_width());
  }
}

TEST(SynthPlanTest, ThresholdsAreThoseOfTheDensity) {
  const auto plan = PlanSynth({.like = "tiny", .density = 0.2, .skew = 0.4});
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  double fires = 0.0;
  double candidates = 0.0;
  for (size_t i = 0; i < plan->thresholds.size(); ++i) {
    EXPECT_LE(plan->candidate_thresholds[i], plan->thresholds[i]);
    fires += NormalTail(plan->thresholds[i]);
    candidates += NormalTail(plan->candidate_thresholds[i]);
  }
  EXPECT_NEAR(fires / 2048.0, 0.2, 1e-6);
  EXPECT_NEAR(candidates / fires, kCandidateRatio, 1e-6);
}

TEST(SynthPlanTest, DimensionsHoldWholeBlocks) {
  const auto q4_0 = PlanSynth({.like = "tiny-opt"});
  ASSERT_TRUE(q4_0.has_value());
  EXPECT_EQ(q4_0->constant_width, 32u);
  EXPECT_EQ(q4_0->position_width, 32u);
  EXPECT_LE(2 * q4_0->frequencies.size(), q4_0->position_width);
  EXPECT_EQ(q4_0->basis_begin() + q4_0->basis_width(), 512u);
  const auto q4_k = PlanSynth({.like = "tiny", .dtype = DType::kQ4_K});
  ASSERT_TRUE(q4_k.has_value());
  EXPECT_EQ(q4_k->constant_width, 256u);
  EXPECT_EQ(q4_k->position_width, 0u);
}

TEST(SynthPlanTest, RefusesWhatIsNotPossible) {
  EXPECT_THAT(ErrorOf({.like = "gpt-5"}), HasSubstr("no model \"gpt-5\""));
  EXPECT_THAT(ErrorOf({.like = "tiny", .dtype = DType::kQ5_K}),
              HasSubstr("are not made in Q5_K"));
  EXPECT_THAT(ErrorOf({.like = "tiny-opt", .dtype = DType::kQ4_K}),
              HasSubstr("too narrow for the blocks of 256"));
  EXPECT_THAT(ErrorOf({.like = "gpt-oss-20b", .dtype = DType::kQ4_K}),
              HasSubstr("the blocks of 256 of Q4_K do not divide that; those "
                        "of F32, F16, Q8_0, Q4_0 do"));
  EXPECT_THAT(ErrorOf({.like = "tiny", .density = 0.0}),
              HasSubstr("a density of 0 is not possible"));
  EXPECT_THAT(ErrorOf({.like = "tiny", .density = 0.9}),
              HasSubstr("a density of 0.9 is not possible"));
  EXPECT_THAT(ErrorOf({.like = "tiny", .density = 0.4, .skew = 0.2}),
              HasSubstr("a skew of 0.2 is not possible"));
  EXPECT_THAT(ErrorOf({.like = "tiny", .locality = 0.2}),
              HasSubstr("a locality of 0.2 is not possible"));
  EXPECT_THAT(ErrorOf({.like = "tiny", .num_layers = 3}),
              HasSubstr("3 layers of tiny are not possible; it has 2"));
  EXPECT_THAT(ErrorOf({.like = "tiny", .num_layers = 0}),
              HasSubstr("0 layers"));
  EXPECT_THAT(ErrorOf({.like = "tiny", .num_topics = 0}),
              HasSubstr("0 topics are not possible"));
  EXPECT_THAT(ErrorOf({.like = "tiny", .expert_skew = 0.5}),
              HasSubstr("tiny has no experts"));
}

TEST(SynthPlanTest, EveryPartAndRowHasItsOwnNumbers) {
  const uint64_t here = RandomFor(1, SynthPart::kGate, 2, 3).Next();
  EXPECT_EQ(here, RandomFor(1, SynthPart::kGate, 2, 3).Next());
  EXPECT_NE(here, RandomFor(2, SynthPart::kGate, 2, 3).Next());
  EXPECT_NE(here, RandomFor(1, SynthPart::kUp, 2, 3).Next());
  EXPECT_NE(here, RandomFor(1, SynthPart::kGate, 3, 3).Next());
  EXPECT_NE(here, RandomFor(1, SynthPart::kGate, 2, 4).Next());
  EXPECT_NE(here, RandomFor(1, SynthPart::kGate, 3, 2).Next());
}

TEST(SynthPlanTest, DescribesItself) {
  const auto plan = PlanSynth({.like = "tiny", .seed = 9});
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->Describe(), "density 0.1, skew 0.26, locality 0.6, seed 9");
  const auto all = PlanSynth({.like = "tiny-moe",
                              .expert_skew = 0.5,
                              .expert_locality = 0.6,
                              .num_topics = 3});
  ASSERT_TRUE(all.has_value()) << all.error().message;
  EXPECT_EQ(all->Describe(),
            "density 0.1, skew 0.26, locality 0.6, expert skew 0.5, expert "
            "locality 0.6, 3 topics, seed 1");
  EXPECT_EQ(all->basis_begin(), 96u);
}

}  // namespace
}  // namespace thermocline::synth
