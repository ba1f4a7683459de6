#include "training/cholesky.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"
#include "training/testing.h"

namespace thermocline::training {
namespace {

TEST(CholeskyTest, ItsSquareIsTheMatrix) {
  constexpr size_t kSize = 7;
  Random random(1);
  std::vector<double> root(kSize * kSize), gram(kSize * kSize);
  for (double& value : root) value = random.Uniform(-1.0f, 1.0f);
  for (size_t i = 0; i < kSize; ++i) {
    for (size_t j = 0; j < kSize; ++j) {
      for (size_t k = 0; k < kSize; ++k) {
        gram[i * kSize + j] += root[i * kSize + k] * root[j * kSize + k];
      }
    }
  }
  std::vector<double> lower = gram;
  Cholesky(lower, kSize);
  for (size_t i = 0; i < kSize; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double product = 0;
      for (size_t k = 0; k <= j; ++k) {
        product += lower[i * kSize + k] * lower[j * kSize + k];
      }
      EXPECT_NEAR(product, gram[i * kSize + j], 1e-9);
    }
  }
}

TEST(CholeskyTest, SolvesByItsTriangle) {
  const auto pool = TestPool(1);
  std::vector<double> gram = {4, 2, 0, 2, 5, 1, 0, 1, 3};
  Cholesky(gram, 3);
  // gram times the columns (1, 2, 3) and (-1, 0, 2).
  std::vector<float> right = {8, -4, 15, 0, 11, 6};
  SolveByTriangle(Gemm(pool.get()), gram, 3, right, 2);
  EXPECT_THAT(right,
              ::testing::Pointwise(::testing::FloatNear(1e-5f),
                                   std::vector<float>{1, -1, 2, 0, 3, 2}));
}

// The second column is twice the first.
TEST(CholeskyTest, WhatHasNothingOfItsOwnVanishes) {
  std::vector<double> gram = {1, 2, 0, 2, 4, 0, 0, 0, 9};
  Cholesky(gram, 3);
  EXPECT_EQ(gram[0], 1);
  EXPECT_EQ(gram[4], 1e18);
  EXPECT_EQ(gram[7], 0);
  EXPECT_EQ(gram[8], 3);
}

}  // namespace
}  // namespace thermocline::training
