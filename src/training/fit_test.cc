#include "training/fit.h"

#include "tensor/codec.h"
#include "training/testing.h"

namespace thermocline::training {
namespace {

constexpr size_t kWidth = 64;
constexpr size_t kNeurons = 256;
constexpr size_t kHeldOut = 500;

struct Fixture {
  explicit Fixture(size_t gate_rank, size_t num_experts = 1,
                   size_t num_used = 1)
      : pool(TestPool(2)),
        gemm(pool.get()),
        layer(kWidth, kNeurons * num_experts, gate_rank, 2500, 1, num_experts,
              num_used) {
    data = {.train = layer.Train(kHeldOut),
            .held_out = layer.HeldOut(kHeldOut),
            .gate = {},
            .ffn_bytes = 3 * kWidth * kNeurons * 4};
    const float scale = UnitScale(data.train);
    data.train.input_scale = data.held_out.input_scale = scale;
    data.gate = layer.ScaledGate(scale);
  }
  std::unique_ptr<os::ThreadPool> pool;
  Gemm gemm;
  SyntheticLayer layer;
  FitData data;
  FitOptions options = {.max_bytes_share = 1.0, .num_steps = 100};
};

TEST(FitTest, BytesAndTheLargestRank) {
  EXPECT_EQ(PredictorBytes(64, 32, 256, DType::kF16),
            64u * 32 * 2 + 256 * 32 * 2 + (32 + 256) * 4);
  EXPECT_EQ(MaxRank(64, 256, DType::kQ8_0, 1 << 30), 64u);
  EXPECT_EQ(MaxRank(64, 256, DType::kQ8_0, 15000), 32u);
  EXPECT_EQ(MaxRank(64, 256, DType::kQ8_0, 10000), 0u);
  const uint64_t just = PredictorBytes(64, 32, 256, DType::kQ8_0);
  EXPECT_EQ(MaxRank(64, 256, DType::kQ8_0, just), 32u);
  EXPECT_EQ(MaxRank(64, 256, DType::kQ8_0, just - 1), 0u);
  EXPECT_EQ(MaxRank(64, 256, DType::kF16, 15000), 16u);
  EXPECT_EQ(MaxRank(64, 40, DType::kQ8_0, 1 << 30), 32u);
  EXPECT_EQ(MaxRank(40, 256, DType::kQ8_0, 1 << 30), 0u);
  EXPECT_EQ(SmallestType(64), DType::kQ8_0);
  EXPECT_EQ(SmallestType(40), DType::kF16);
  EXPECT_EQ(MaxRank(40, 256, SmallestType(40), 1 << 30), 40u);
}

TEST(FitTest, ReachesItsRecallWithASmallRank) {
  Fixture f(4);
  const auto fitted = FitPredictor(f.gemm, f.data, f.options);
  ASSERT_TRUE(fitted) << fitted.error().message;
  ASSERT_TRUE(fitted->predictor.has_value());
  EXPECT_GE(fitted->accuracy.recall(), 0.99);
  EXPECT_LT(fitted->accuracy.candidates_per_fired(), 1.5);
  // One of 64 was possible.
  EXPECT_EQ(fitted->rank, 32u);
  EXPECT_EQ(fitted->dtype, DType::kQ8_0);
  EXPECT_EQ(fitted->num_bytes, PredictorBytes(64, 32, 256, DType::kQ8_0));
  EXPECT_FALSE(fitted->trials.empty());
}

// Its bytes are those of one expert.
TEST(FitTest, AMixture) {
  Fixture f(4, 4, 2);
  const auto fitted = FitPredictor(f.gemm, f.data, f.options);
  ASSERT_TRUE(fitted) << fitted.error().message;
  ASSERT_TRUE(fitted->predictor.has_value());
  EXPECT_EQ(fitted->accuracy.num_neurons, 2 * kNeurons);
  EXPECT_GE(fitted->accuracy.recall(), 0.99);
  EXPECT_LT(fitted->accuracy.candidates_per_fired(), 1.5);
  EXPECT_EQ(fitted->rank, 32u);
  EXPECT_EQ(fitted->num_bytes, PredictorBytes(64, 32, 256, DType::kQ8_0));
  EXPECT_EQ(fitted->predictor->down.num_rows, 4 * kNeurons);
}

TEST(FitTest, GrowsWhereTheGateHasManyDirections) {
  Fixture f(64);
  f.data.skew = 0.0;  // begins low
  f.options.goal.max_candidates = 1.15;
  const auto fitted = FitPredictor(f.gemm, f.data, f.options);
  ASSERT_TRUE(fitted) << fitted.error().message;
  EXPECT_EQ(fitted->rank, 64u);
  EXPECT_EQ(fitted->trials.front().rank, 32u);
}

// A layer whose ranks are multiples of 8, up to 40.
struct FineFixture {
  std::unique_ptr<os::ThreadPool> pool = TestPool(2);
  Gemm gemm{pool.get()};
  SyntheticLayer layer{40, 64, 32, 1000, 3};
  FitData data = {.train = layer.Train(200),
                  .held_out = layer.HeldOut(200),
                  .gate = layer.ScaledGate(),
                  .ffn_bytes = 40 * 64 * 12,
                  .skew = 0.0};
  FitOptions options = {.max_bytes_share = 1.0, .num_steps = 60};
};

// The narrowest of those tried that holds, from either side.
TEST(FitTest, GrowsOrShrinksNoFurtherThanItHasTo) {
  FineFixture f;
  for (const auto& [max_candidates, rank] :
       {std::pair(1.3, 24u), std::pair(2.0, 16u), std::pair(3.0, 8u)}) {
    f.options.goal.max_candidates = max_candidates;
    const auto fitted = FitPredictor(f.gemm, f.data, f.options);
    ASSERT_TRUE(fitted) << fitted.error().message;
    EXPECT_EQ(fitted->rank, rank);
    EXPECT_EQ(fitted->trials.size(), 2u);
    for (const RankTrial& trial : fitted->trials) {
      EXPECT_EQ(trial.candidates_per_fired <= max_candidates,
                trial.rank >= rank)
          << trial.rank << " of " << rank;
    }
  }
  // None holds: the widest.
  f.options.goal.max_candidates = 1.0;
  const auto fitted = FitPredictor(f.gemm, f.data, f.options);
  ASSERT_TRUE(fitted) << fitted.error().message;
  EXPECT_EQ(fitted->rank, 40u);
}

TEST(FitTest, DenserLayersBeginWider) {
  FineFixture f;
  const auto first_rank = [&] {
    const auto fitted = FitPredictor(f.gemm, f.data, f.options);
    EXPECT_TRUE(fitted && !fitted->trials.empty());
    return fitted && !fitted->trials.empty() ? fitted->trials[0].rank : 0;
  };
  const size_t of_few = first_rank();
  for (uint64_t& word : f.layer.fired) word |= 0x5555555555555555;
  EXPECT_GT(first_rank(), of_few);
}

TEST(FitTest, ProgressStaysWithinWhatMayCome) {
  FineFixture f;
  size_t last = 0;
  size_t total = 0;
  f.options.progress = [&](size_t num_done, size_t num_total) {
    EXPECT_GE(num_done, last);
    EXPECT_LE(num_done, num_total);
    if (total != 0) EXPECT_EQ(num_total, total);
    last = num_done;
    total = num_total;
  };
  ASSERT_TRUE(FitPredictor(f.gemm, f.data, f.options));
  EXPECT_GT(last, f.options.num_steps);       // with the trials
  EXPECT_LT(total, 3 * f.options.num_steps);  // which are short
}

// What is stored computes the scores that were measured: on inputs that are not
// scaled, with the threshold in the bias.
TEST(FitTest, WhatIsStoredIsWhatWasMeasured) {
  Fixture f(8);
  const auto fitted = FitPredictor(f.gemm, f.data, f.options);
  ASSERT_TRUE(fitted && fitted->predictor);
  const pack::LayerPredictor& stored = *fitted->predictor;
  LowRank decoded = LowRank::Zeros(kWidth, fitted->rank, kNeurons);
  for (size_t r = 0; r < fitted->rank; ++r) {
    DequantizeRow(stored.up.dtype,
                  &stored.up.bytes[r * BytesOf(stored.up.dtype, kWidth)],
                  std::span(&decoded.up[r * kWidth], kWidth));
  }
  for (size_t i = 0; i < kNeurons; ++i) {
    DequantizeRow(
        stored.down.dtype,
        &stored.down.bytes[i * BytesOf(stored.down.dtype, fitted->rank)],
        std::span(&decoded.down[i * fitted->rank], fitted->rank));
  }
  decoded.up_bias = stored.up_bias;
  decoded.down_bias = stored.down_bias;
  const Accuracy accuracy =
      Measure(f.gemm, {.values = decoded, .dtype = stored.up.dtype},
              f.layer.HeldOut(kHeldOut), 0.0f);
  EXPECT_NEAR(accuracy.recall(), fitted->accuracy.recall(), 0.003);
  EXPECT_NEAR(accuracy.candidates_per_fired(),
              fitted->accuracy.candidates_per_fired(), 0.01);
}

TEST(FitTest, WhyThereIsNone) {
  Fixture f(4);
  f.options.max_bytes_share = 0.001;
  auto fitted = FitPredictor(f.gemm, f.data, f.options);
  ASSERT_TRUE(fitted);
  EXPECT_FALSE(fitted->predictor.has_value());
  EXPECT_STREQ(fitted->reason, "no rank is within the bytes allowed");
  EXPECT_GT(fitted->accuracy.density(), 0);

  f.options.max_bytes_share = 1.0;
  std::fill(f.layer.fired.begin(), f.layer.fired.end(), uint64_t{0});
  fitted = FitPredictor(f.gemm, f.data, f.options);
  ASSERT_TRUE(fitted);
  EXPECT_FALSE(fitted->predictor.has_value());
  EXPECT_STREQ(fitted->reason, "nothing fired");

  std::fill(f.layer.fired.begin(), f.layer.fired.end(), ~uint64_t{0});
  fitted = FitPredictor(f.gemm, f.data, f.options);
  ASSERT_TRUE(fitted);
  EXPECT_FALSE(fitted->predictor.has_value());
  EXPECT_STREQ(fitted->reason, "nearly every neuron would be a candidate");
}

TEST(FitTest, WidthsThatBlocksDoNotDivideTakeSixteenBits) {
  const auto pool = TestPool(2);
  const Gemm gemm(pool.get());
  const SyntheticLayer layer(40, 64, 4, 1000, 3);
  const FitData data = {.train = layer.Train(200),
                        .held_out = layer.HeldOut(200),
                        .gate = layer.ScaledGate(),
                        .ffn_bytes = 40 * 64 * 12};
  const auto fitted =
      FitPredictor(gemm, data, {.max_bytes_share = 1.0, .num_steps = 60});
  ASSERT_TRUE(fitted && fitted->predictor);
  EXPECT_EQ(fitted->dtype, DType::kF16);
  EXPECT_GE(fitted->accuracy.recall(), 0.97);
}

// Every other input is so small, and its weights so large, that 8 bits lose the
// weights beside them. In 16 bits half as many ranks are within the bytes.
TEST(FitTest, WhatEightBitsLoseIsTrainedAgainForSixteen) {
  Fixture f(4);
  for (size_t i = 0; i < f.layer.inputs.size(); i += 2) {
    f.layer.inputs[i] = F32ToF16(F16ToF32(f.layer.inputs[i]) / 1024.0f);
  }
  for (size_t i = 0; i < f.layer.gate.rows.size(); i += 2) {
    f.layer.gate.rows[i] *= 1024.0f;
  }
  f.data.gate = f.layer.ScaledGate(f.data.train.input_scale);
  f.data.ffn_bytes = PredictorBytes(kWidth, 32, kNeurons, DType::kQ8_0);
  ASSERT_EQ(MaxRank(kWidth, kNeurons, DType::kF16, f.data.ffn_bytes), 16u);
  size_t num_done = 0;
  size_t num_total = 0;
  f.options.progress = [&](size_t done, size_t total) {
    EXPECT_LE(done, total);
    num_done = done;
    num_total = total;
  };
  const auto fitted = FitPredictor(f.gemm, f.data, f.options);
  ASSERT_TRUE(fitted && fitted->predictor);
  EXPECT_EQ(fitted->dtype, DType::kF16);
  EXPECT_EQ(fitted->rank, 16u);
  EXPECT_GE(fitted->accuracy.recall(), 0.97);
  EXPECT_EQ(num_done, f.options.num_steps);
  EXPECT_EQ(num_total, f.options.num_steps);
}

TEST(FitTest, LookingAheadMeasuresAtAsManyCandidates) {
  Fixture f(4);
  f.options.num_steps = 60;
  const auto own = MeasureAhead(f.gemm, f.data, 32, 1.3, f.options);
  ASSERT_TRUE(own);
  EXPECT_GT(own->recall(), 0.98);
  EXPECT_NEAR(own->candidates_per_fired(), 1.3, 0.01);
  // Inputs of another token say nothing.
  f.data.train.inputs += kWidth;
  f.data.train.num_samples -= 1;
  f.data.held_out.inputs -= kWidth;
  const auto other = MeasureAhead(f.gemm, f.data, 32, 1.3, f.options);
  ASSERT_TRUE(other);
  EXPECT_LT(other->recall(), 0.7);
}

}  // namespace
}  // namespace thermocline::training
