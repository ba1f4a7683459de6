#include "engine/ffn/sum_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "engine/testing/test_compute_fixture.h"

namespace thermocline::engine {
namespace {

using testing::ComputeFixture;
using testing::OwnedTensor;

model::Config ConfigOf(int64_t width, int64_t ffn_width) {
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
    for (const int64_t width : {32, 96, 160, 544}) {
      std::vector<float> values(static_cast<size_t>(width) * 70);
      for (float& value : values) value = random.Uniform(-1.0f, 1.0f);
      const OwnedTensor matrix(dtype, values, static_cast<uint64_t>(width));
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

}  // namespace
}  // namespace thermocline::engine
