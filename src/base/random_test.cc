#include "base/random.h"

#include <gtest/gtest.h>

namespace thermocline {
namespace {

// First outputs of SplitMix64 for seed 0, as published with the algorithm.
TEST(RandomTest, KnownAnswers) {
  Random random(0);
  EXPECT_EQ(random.Next(), 0xe220a8397b1dcdafu);
  EXPECT_EQ(random.Next(), 0x6e789e6aa1b965f4u);
}

TEST(RandomTest, UniformStaysInRange) {
  Random random(7);
  for (int i = 0; i < 1000; ++i) {
    const double u = random.Uniform();
    EXPECT_GE(u, 0.0);
    EXPECT_LT(u, 1.0);
    EXPECT_LT(random.Below(3), 3u);
  }
}

}  // namespace
}  // namespace thermocline
