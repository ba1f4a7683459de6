#include "engine/ffn/transposed_down.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/random.h"
#include "engine/testing/test_compute_fixture.h"
#include "engine/testing/tiny_model.h"

namespace thermocline::engine {
namespace {

using testing::ComputeFixture;
using testing::OwnedTensor;
using testing::RandomFloats;

model::Config ConfigOf(size_t width, size_t ffn_width) {
  model::Config config;
  config.width = width;
  config.layers = {model::LayerSpec{.ffn = {.width = ffn_width}}};
  return config;
}

TEST(SumRows, CoefficientsOfTheirOwnForEachToken) {
  const OwnedTensor matrix(
      DType::kF32, std::vector<float>{1, 2, 10, 20, 100, 200, 1000, 2000}, 2);
  const OwnedTensor bias(DType::kF32, std::vector<float>{0.5f, 0.25f}, 2);
  ComputeFixture fixture(ConfigOf(2, 4),
                         {.batch = 3, .context = 1, .num_threads = 2});
  const compute::Rows& coefs = fixture.scratch().ffn[0].up;
  for (size_t t = 0; t < 3; ++t) {
    for (size_t i = 0; i < 4; ++i) {
      coefs.row(t)[i] = static_cast<float>(t * (i + 1));
    }
  }
  RowSums sums = {.matrix = matrix.view(),
                  .bias = bias.view(),
                  .coefs = coefs,
                  .out = fixture.scratch().delta};
  SumRows(fixture.compute(), sums, 3);
  const auto row = [&](size_t t) {
    const auto span = fixture.scratch().delta.span(t);
    return std::vector<float>(span.begin(), span.end());
  };
  EXPECT_EQ(row(0), (std::vector<float>{0.5f, 0.25f}));
  EXPECT_EQ(row(1), (std::vector<float>{4321.5f, 8642.25f}));
  EXPECT_EQ(row(2), (std::vector<float>{8642.5f, 17284.25f}));
  sums.bias = {};
  SumRows(fixture.compute(), sums, 2);
  EXPECT_EQ(row(1), (std::vector<float>{4321, 8642}));
}

// Widths around the pieces, every type's blocks, all thread counts and batches.
TEST(SumRows, SameBitsForEveryCut) {
  Random random(3);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kQ8_0}) {
    for (const size_t width : {32, 96, 160, 544}) {
      std::vector<float> values(width * 70);
      for (float& value : values) value = random.Uniform(-1.0f, 1.0f);
      const OwnedTensor matrix(dtype, values, width);
      std::vector<float> first;
      for (const int num_threads : {1, 2, 5}) {
        ComputeFixture fixture(
            ConfigOf(width, 70),
            {.batch = 2, .context = 1, .num_threads = num_threads},
            kernels::BestIsa());
        const compute::Rows& coefs = fixture.scratch().ffn[0].up;
        for (size_t i = 0; i < 70; ++i) {
          coefs.row(0)[i] = coefs.row(1)[i] =
              std::sin(static_cast<float>(i + 1));
        }
        for (const size_t num_tokens : {1, 2}) {
          SumRows(fixture.compute(),
                  {.matrix = matrix.view(),
                   .coefs = coefs,
                   .out = fixture.scratch().delta},
                  num_tokens);
          const auto out = fixture.scratch().delta.span(num_tokens - 1);
          if (first.empty()) first.assign(out.begin(), out.end());
          EXPECT_EQ(std::vector<float>(out.begin(), out.end()), first)
              << NameOf(dtype) << " width " << width;
        }
      }
    }
  }
}

model::Config RecordsConfig(size_t width, size_t num_neurons) {
  model::Config config;
  config.width = width;
  config.layers = {model::LayerSpec{.ffn = {.width = num_neurons}}};
  config.records.resize(1);
  return config;
}

constexpr size_t kAllTokens = 96;

// Of kAllTokens tokens, num_tokens at a time; the sums of rows if not
// `transposed`.
std::vector<float> Multiply(const TensorView& down_t, const TensorView& bias,
                            kernels::Isa isa, int num_threads,
                            size_t num_tokens, bool transposed) {
  const size_t num_neurons = down_t.shape.num_rows();
  const model::Config config = RecordsConfig(down_t.shape.ne[0], num_neurons);
  ComputeFixture fixture(
      config, {.batch = kAllTokens, .context = 1, .num_threads = num_threads},
      isa);
  const FfnScratch& scratch = fixture.ffn_scratch();
  const compute::Rows& to = fixture.scratch().delta;
  const auto hidden = RandomFloats(kAllTokens * num_neurons, 5);
  std::vector<float> out;
  EXPECT_TRUE(CanMultiplyTransposed(fixture.compute(), scratch, down_t));
  const RowSums sums = {
      .matrix = down_t, .bias = bias, .coefs = scratch.up, .out = to};
  for (size_t begin = 0; begin < kAllTokens; begin += num_tokens) {
    for (size_t t = 0; t < num_tokens; ++t) {
      std::copy_n(hidden.data() + (begin + t) * num_neurons, num_neurons,
                  scratch.up.row(t));
    }
    if (transposed) {
      MultiplyTransposed(fixture.compute(), scratch, sums, num_tokens);
    } else {
      SumRows(fixture.compute(), sums, num_tokens);
    }
    for (size_t t = 0; t < num_tokens; ++t) {
      const auto row = to.span(t);
      out.insert(out.end(), row.begin(), row.end());
    }
  }
  return out;
}

TEST(TransposedDown, IsTheSumOfRows) {
  for (const kernels::Isa isa : kernels::SupportedIsas()) {
    if (!kernels::KernelsFor(isa).batch) continue;
    for (const DType dtype :
         {DType::kF32, DType::kF16, DType::kQ8_0, DType::kQ4_0, DType::kQ6_K}) {
      for (const size_t width : {size_t{256}, size_t{768}, size_t{771}}) {
        if (width % InfoOf(dtype).block_elems != 0) continue;
        SCOPED_TRACE(std::string(kernels::NameOf(isa)) + " " +
                     std::string(NameOf(dtype)));
        constexpr size_t kNeurons = 224;
        const OwnedTensor down_t(dtype, RandomFloats(width * kNeurons, 1),
                                 width);
        const OwnedTensor bias(DType::kF32, RandomFloats(width, 2), width);
        const auto expected =
            Multiply(down_t.view(), bias.view(), isa, 2, kAllTokens, false);
        const auto got =
            Multiply(down_t.view(), bias.view(), isa, 2, kAllTokens, true);
        EXPECT_LE(testing::Nmse(got, std::span<const float>(expected)),
                  IsFloat(dtype) ? 1e-11 : 2e-4);
        EXPECT_EQ(
            Multiply(down_t.view(), bias.view(), isa, 3, kAllTokens, true),
            got);
        EXPECT_EQ(Multiply(down_t.view(), bias.view(), isa, 1, 24, true), got);
      }
    }
  }
}

TEST(TransposedDown, IsForWholeBlocksWithRoom) {
  const OwnedTensor down_t(DType::kQ8_0, RandomFloats(32 * 64, 1), 32);
  const OwnedTensor odd(DType::kQ8_0, RandomFloats(32 * 65, 1), 32);
  const kernels::Isa isa = kernels::BestIsa();
  if (!kernels::KernelsFor(isa).batch) {
    GTEST_SKIP() << "needs a CPU with AVX2 or dot products of NEON";
  }
  const ScratchShape shape = {.batch = 2, .context = 1, .num_threads = 1};
  ComputeFixture fixture(RecordsConfig(32, 65), shape, isa);
  const auto can = [&](const ComputeFixture& f, const TensorView& view) {
    return CanMultiplyTransposed(f.compute(), f.ffn_scratch(), view);
  };
  EXPECT_TRUE(can(fixture, down_t.view()));
  EXPECT_FALSE(can(fixture, odd.view()));
  model::Config matrices = RecordsConfig(32, 64);
  matrices.records.clear();
  EXPECT_FALSE(can(ComputeFixture(matrices, shape, isa), down_t.view()));
  ComputeFixture scalar(RecordsConfig(32, 64), shape, kernels::Isa::kScalar);
  EXPECT_EQ(scalar.ffn_scratch().transposed_bytes, 0u);
}

}  // namespace
}  // namespace thermocline::engine
