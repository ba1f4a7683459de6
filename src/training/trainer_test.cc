#include "training/trainer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "training/accuracy.h"
#include "training/testing.h"

namespace thermocline::training {
namespace {

// The loss that ComputeGradients differentiates, in doubles.
double Loss(const LowRank& p, const std::vector<float>& x,
            const Samples& samples, double weight) {
  double loss = 0;
  for (size_t b = 0; b < samples.num_samples; ++b) {
    std::vector<double> hidden(p.rank);
    for (size_t r = 0; r < p.rank; ++r) {
      double sum = double{p.up_bias[r]};
      for (size_t j = 0; j < p.width; ++j) {
        sum += double{p.up[r * p.width + j]} * x[b * p.width + j];
      }
      hidden[r] = std::max(sum, 0.0);
    }
    for (size_t i = 0; i < p.num_neurons; ++i) {
      if (!samples.Uses(b, i / samples.ffn_width())) continue;
      double score = double{p.down_bias[i]};
      for (size_t r = 0; r < p.rank; ++r) {
        score += double{p.down[i * p.rank + r]} * hidden[r];
      }
      const bool y = (samples.fired_of(b)[i / 64] >> (i % 64) & 1) != 0;
      loss += y ? weight * std::log1p(std::exp(-score))
                : std::log1p(std::exp(score));
    }
  }
  return loss / static_cast<double>(samples.num_samples);
}

struct Problem {
  explicit Problem(size_t num_experts, size_t num_used = 1)
      : layer(5, 70, 3, 4, 1, num_experts, num_used),
        predictor(LowRank::Zeros(5, 4, 70)) {
    Random random(2);
    for (std::vector<float>* values : {&predictor.up, &predictor.up_bias,
                                       &predictor.down, &predictor.down_bias}) {
      for (float& value : *values) value = random.Uniform(-1, 1);
    }
    scratch.x.resize(4 * 5);
    for (size_t n = 0; n < 4; ++n) {
      layer.samples.LoadInput(n, &scratch.x[n * 5]);
      picked.push_back(n);
    }
  }
  SyntheticLayer layer;
  LowRank predictor;
  TrainScratch scratch;
  std::vector<size_t> picked;
};

void ExpectFiniteDifferences(Problem& problem) {
  const auto pool = TestPool(2);
  const Gemm gemm(pool.get());
  LowRank gradients = LowRank::Zeros(5, 4, 70);
  // What an earlier batch left there must not stay.
  std::ranges::fill(gradients.down, 9.0f);
  std::ranges::fill(gradients.down_bias, 9.0f);
  ComputeGradients(gemm, problem.predictor, problem.layer.samples,
                   problem.picked, 3.0f, problem.scratch, gradients);
  LowRank moved = problem.predictor;
  const auto check = [&](std::vector<float>& values,
                         const std::vector<float>& got) {
    constexpr float kStep = 1e-3f;
    for (size_t i = 0; i < values.size(); ++i) {
      const float at = values[i];
      values[i] = at + kStep;
      const double above =
          Loss(moved, problem.scratch.x, problem.layer.samples, 3.0);
      values[i] = at - kStep;
      const double below =
          Loss(moved, problem.scratch.x, problem.layer.samples, 3.0);
      values[i] = at;
      EXPECT_NEAR(got[i], (above - below) / (2 * double{kStep}), 2e-3) << i;
    }
  };
  check(moved.up, gradients.up);
  check(moved.up_bias, gradients.up_bias);
  check(moved.down, gradients.down);
  check(moved.down_bias, gradients.down_bias);
}

TEST(TrainerTest, GradientsAreThoseOfFiniteDifferences) {
  Problem problem(1);
  ExpectFiniteDifferences(problem);
}

// Neurons of experts that a sample does not use are no part of its loss; with
// seven experts for four samples some have no sample at all.
TEST(TrainerTest, GradientsOfMixtures) {
  for (const auto& [num_experts, num_used] :
       {std::pair{2, 1}, std::pair{5, 3}, std::pair{7, 1}}) {
    SCOPED_TRACE(num_experts);
    Problem problem(static_cast<size_t>(num_experts),
                    static_cast<size_t>(num_used));
    ExpectFiniteDifferences(problem);
  }
}

// Of E experts of 32 neurons, or of one FFN of 64.
TEST(TrainerTest, LearnsFromNothing) {
  const auto pool = TestPool(2);
  const Gemm gemm(pool.get());
  for (const size_t num_experts : {size_t{1}, size_t{4}}) {
    SCOPED_TRACE(num_experts);
    const size_t num_neurons = num_experts == 1 ? 64 : 32 * num_experts;
    const SyntheticLayer layer(16, num_neurons, 3, 3000 + 750 * num_experts, 3,
                               num_experts, num_experts == 1 ? 1 : 2);
    LowRank predictor = LowRank::Zeros(16, 16, num_neurons);
    Random random(4);
    for (float& value : predictor.up) value = random.Uniform(-0.5f, 0.5f);
    for (float& value : predictor.down) value = random.Uniform(-0.1f, 0.1f);
    ASSERT_TRUE(Train(gemm, layer.Train(500),
                      {.batch = 32 + 32 * num_experts,
                       .num_steps = 600,
                       .learning_rate = 1e-2f},
                      predictor));
    const RoundedPredictor rounded = {.values = predictor,
                                      .dtype = DType::kF32};
    const Accuracy accuracy = Measure(gemm, rounded, layer.HeldOut(500), 0.0f);
    EXPECT_EQ(accuracy.num_neurons, 64u);
    EXPECT_GT(accuracy.recall(), 0.97);
    EXPECT_LT(accuracy.candidates_per_fired(), 1.6);
  }
}

TEST(TrainerTest, TheSameBitsForASeedWhateverTheThreads) {
  const SyntheticLayer layer(16, 200, 3, 300, 5);
  std::vector<LowRank> results;
  for (const auto& [num_threads, seed] :
       {std::pair{1, 1}, std::pair{3, 1}, std::pair{1, 2}}) {
    const auto pool = TestPool(num_threads);
    LowRank predictor = LowRank::Zeros(16, 8, 200);
    predictor.up.assign(predictor.up.size(), 0.01f);
    predictor.down.assign(predictor.down.size(), 0.02f);
    ASSERT_TRUE(Train(Gemm(pool.get()), layer.samples,
                      {.num_steps = 5, .seed = static_cast<uint64_t>(seed)},
                      predictor));
    results.push_back(predictor);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_FALSE(results[0] == results[2]);
}

TEST(TrainerTest, StopsWhenAsked) {
  const auto pool = TestPool(1);
  const SyntheticLayer layer(8, 16, 2, 20, 6);
  LowRank predictor = LowRank::Zeros(8, 4, 16);
  std::atomic<bool> cancel = false;
  size_t num_steps = 0;
  const Status status = Train(Gemm(pool.get()), layer.samples,
                              {.cancel = &cancel,
                               .progress =
                                   [&](size_t num_done) {
                                     num_steps = num_done;
                                     cancel = num_done == 3;
                                   }},
                              predictor);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(num_steps, 3u);
}

}  // namespace
}  // namespace thermocline::training
