#include "engine/ffn/expert_ffn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compute/test_compute.h"
#include "engine/ffn/dense_ffn.h"
#include "engine/testing/test_compute_fixture.h"
#include "engine/testing/tiny_model.h"

namespace thermocline::engine {
namespace {

using testing::ComputeFixture;
using testing::OwnedTensor;
using testing::RandomFloats;

constexpr size_t kWidth = 64;
constexpr size_t kFfnWidth = 96;
// Of 8 experts, 3 used, each gets 72 of these: enough for every form of
// products (kernels/kernels.h).
constexpr size_t kBatch = 192;

model::Config ExpertConfig(size_t num_experts, size_t num_used) {
  model::Config config;
  config.width = kWidth;
  config.layers = {model::LayerSpec{.ffn = {.width = kFfnWidth,
                                            .num_experts = num_experts,
                                            .num_experts_used = num_used}}};
  return config;
}

// E experts and a router of random weights. The router's are floats: rounded
// inputs would choose other experts where two are nearly equal.
class RandomExperts {
 public:
  RandomExperts(size_t num_experts, DType dtype) {
    const auto make = [&](DType type, size_t rows, size_t columns) {
      owned_.push_back(std::make_unique<OwnedTensor>(
          type, RandomFloats(rows * columns, owned_.size() + 1, 0.2f),
          columns));
      return owned_.back()->view();
    };
    weights_.router = make(DType::kF32, num_experts, kWidth);
    for (size_t e = 0; e < num_experts; ++e) {
      weights_.experts.push_back({.gate = make(dtype, kFfnWidth, kWidth),
                                  .up = make(dtype, kFfnWidth, kWidth),
                                  .down = make(dtype, kWidth, kFfnWidth),
                                  .down_t = {}});
    }
  }
  model::FfnWeights& weights() { return weights_; }

 private:
  std::vector<std::unique_ptr<OwnedTensor>> owned_;
  model::FfnWeights weights_;
};

std::unique_ptr<FfnExecutor> MakeExperts(const model::Config& config,
                                         const model::FfnWeights& weights,
                                         const ComputeFixture& fixture) {
  return MakeExpertFfn(
      {.config = &config.layers[0].ffn,
       .weights = &weights,
       .compute = &fixture.compute(),
       .scratch = &fixture.ffn_scratch(),
       .make_one = [&](size_t /*expert_idx*/, const auto* expert) {
         return MakeDenseFfn(&config.layers[0].ffn, expert, &fixture.compute(),
                             &fixture.ffn_scratch());
       }});
}

// The outputs [kBatch][D] of kBatch inputs, `batch` at a time as a session
// computes them. What was in the output before must not matter.
std::vector<float> RunInBatches(const model::Config& config,
                                const model::FfnWeights& weights, size_t batch,
                                int num_threads, kernels::Isa isa,
                                Phase phase = Phase::kPrompt) {
  ComputeFixture fixture(
      config, {.batch = kBatch, .context = 1, .num_threads = num_threads}, isa);
  const auto ffn = MakeExperts(config, weights, fixture);
  const auto inputs = RandomFloats(kBatch * kWidth, 77, 0.2f);
  std::vector<float> outputs;
  for (size_t begin = 0; begin < kBatch; begin += batch) {
    const size_t count = std::min(batch, kBatch - begin);
    for (size_t t = 0; t < count; ++t) {
      std::copy_n(inputs.begin() + static_cast<ptrdiff_t>((begin + t) * kWidth),
                  kWidth, fixture.scratch().normed.row(t));
      std::ranges::fill(fixture.scratch().delta.span(t), 1e9f);
    }
    EXPECT_TRUE(ffn->Run(fixture.CallOf(count, phase)));
    for (size_t t = 0; t < count; ++t) {
      const auto row = fixture.scratch().delta.span(t);
      outputs.insert(outputs.end(), row.begin(), row.end());
    }
  }
  return outputs;
}

// Rows of a phase get the same bits, however many of them an expert has; the
// two phases agree to rounding.
TEST(ExpertFfn, SameBitsForEveryCutAndEveryThreadCount) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kQ4_0}) {
    RandomExperts experts(8, dtype);
    const model::Config config = ExpertConfig(8, 3);
    for (const kernels::Isa isa : compute::testing::IsasOfModels()) {
      SCOPED_TRACE(std::string(NameOf(dtype)) + " " +
                   std::string(kernels::NameOf(isa)));
      std::vector<float> of_phase[kNumPhases];
      for (const Phase phase : kPhases) {
        const auto run = [&](size_t batch, int num_threads) {
          return RunInBatches(config, experts.weights(), batch, num_threads,
                              isa, phase);
        };
        const auto expected = run(kBatch, 1);
        for (const auto& [batch, num_threads] :
             {std::pair(kBatch, 3), std::pair(size_t{1}, 1),
              std::pair(size_t{7}, 3), std::pair(size_t{64}, 2)}) {
          EXPECT_EQ(run(batch, num_threads), expected) << batch;
        }
        of_phase[static_cast<size_t>(phase)] = expected;
      }
      EXPECT_LE(testing::Nmse(of_phase[0], std::span<const float>(of_phase[1])),
                1e-4);
    }
  }
}

// With the same weights in all, a token's experts are one FFN whatever their
// shares: they sum to 1.
TEST(ExpertFfn, EqualExpertsAreOneFfn) {
  RandomExperts experts(5, DType::kF32);
  for (model::FfnMatrices& expert : experts.weights().experts) {
    expert = experts.weights().experts[0];
  }
  const auto several = RunInBatches(ExpertConfig(5, 3), experts.weights(),
                                    kBatch, 2, kernels::BestIsa());
  experts.weights().experts.resize(1);
  experts.weights().router.shape.ne[1] = 1;
  const auto one = RunInBatches(ExpertConfig(1, 1), experts.weights(), kBatch,
                                2, kernels::BestIsa());
  ASSERT_EQ(several.size(), one.size());
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_NEAR(several[i], one[i], 1e-6f);
  }
}

// An expert that the router never picks may lie where nothing can be read.
TEST(ExpertFfn, ReadsOnlyExpertsThatATokenUses) {
  RandomExperts experts(4, DType::kF32);
  const auto inputs = RandomFloats(kBatch * kWidth, 77, 0.2f);
  // Router row e is -x of the only token but for row 2, which is x.
  std::vector<float> router;
  for (size_t e = 0; e < 4; ++e) {
    for (size_t i = 0; i < kWidth; ++i) {
      router.push_back(e == 2 ? inputs[i] : -inputs[i]);
    }
  }
  const OwnedTensor owned(DType::kF32, router, kWidth);
  experts.weights().router = owned.view();
  for (const size_t e : {size_t{0}, size_t{1}, size_t{3}}) {
    model::FfnMatrices& unused = experts.weights().experts[e];
    for (TensorView* view : {&unused.gate, &unused.up, &unused.down}) {
      view->data = reinterpret_cast<const std::byte*>(uintptr_t{64});
    }
  }
  const model::Config config = ExpertConfig(4, 1);
  ComputeFixture fixture(config, {.batch = 1, .context = 1, .num_threads = 1});
  std::copy_n(inputs.begin(), kWidth, fixture.scratch().normed.row(0));
  EXPECT_TRUE(
      MakeExperts(config, experts.weights(), fixture)->Run(fixture.CallOf(1)));
  EXPECT_NE(fixture.scratch().delta.row(0)[0], 0.0f);
}

// The choice by the layer's input, made before attention; what the experts read
// is another vector.
TEST(ExpertFfn, ARouterMayReadTheLayersInput) {
  RandomExperts experts(8, DType::kF32);
  const auto run = [&](model::RouterInput router_input, float layer_input) {
    model::Config config = ExpertConfig(8, 2);
    config.layers[0].ffn.router_input = router_input;
    ComputeFixture fixture(config,
                           {.batch = 3, .context = 1, .num_threads = 2});
    const auto ffn = MakeExperts(config, experts.weights(), fixture);
    const auto inputs = RandomFloats(3 * kWidth, 77, 0.2f);
    const Scratch& scratch = fixture.scratch();
    FfnCall call = fixture.CallOf(3);
    call.stream = scratch.residual;
    for (size_t t = 0; t < 3; ++t) {
      for (size_t i = 0; i < kWidth; ++i) {
        scratch.residual.row(t)[i] = layer_input * inputs[t * kWidth + i];
        scratch.normed.row(t)[i] = inputs[t * kWidth + i];
      }
    }
    EXPECT_TRUE(ffn->Select(call, SelectAt::kLayerInput));
    for (size_t t = 0; t < 3; ++t) {  // attention has been here
      std::ranges::fill(scratch.residual.span(t), 1e9f);
      std::ranges::fill(scratch.delta.span(t), 1e9f);
    }
    EXPECT_TRUE(ffn->Select(call, SelectAt::kFfnInput));
    EXPECT_TRUE(ffn->Run(call));
    std::vector<float> outputs;
    for (size_t t = 0; t < 3; ++t) {
      const auto row = scratch.delta.span(t);
      outputs.insert(outputs.end(), row.begin(), row.end());
    }
    return outputs;
  };
  const auto expected = run(model::RouterInput::kFfnInput, 1.0f);
  EXPECT_EQ(run(model::RouterInput::kLayerInput, 1.0f), expected);
  EXPECT_NE(run(model::RouterInput::kLayerInput, -1.0f), expected);
  EXPECT_EQ(run(model::RouterInput::kFfnInput, -1.0f), expected);
}

TEST(ExpertFfn, NanInTheRouterShowsInTheOutput) {
  RandomExperts experts(3, DType::kF32);
  auto values = RandomFloats(3 * kWidth, 1, 0.2f);
  values[2 * kWidth + 5] = std::nanf("");
  const OwnedTensor router(DType::kF32, values, kWidth);
  experts.weights().router = router.view();
  const auto outputs = RunInBatches(ExpertConfig(3, 2), experts.weights(),
                                    kBatch, 2, kernels::BestIsa());
  EXPECT_TRUE(
      std::ranges::all_of(outputs, [](float x) { return std::isnan(x); }));
}

}  // namespace
}  // namespace thermocline::engine
