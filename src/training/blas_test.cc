#include "training/blas.h"

#include <gtest/gtest.h>

namespace thermocline::training {
namespace {

TEST(BlasTest, ComputesOnceItIsLoaded) {
  const auto blas = LoadBlas();
  ASSERT_TRUE(blas) << blas.error().message;
  EXPECT_EQ(*LoadBlas(), *blas);
  const float a[] = {1, 2, 3, 4};
  const float b[] = {1, 0, 1, 1};
  float out[4] = {};
  (*blas)->sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, 2, 2, 2, 1.0f, a, 2,
                 b, 2, 0.0f, out, 2);
  EXPECT_EQ(out[0], 3);
  EXPECT_EQ(out[1], 2);
  EXPECT_EQ(out[2], 7);
  EXPECT_EQ(out[3], 4);
}

}  // namespace
}  // namespace thermocline::training
