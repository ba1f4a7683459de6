#include "tensor/float16.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/random.h"

namespace thermocline {
namespace {

// The compiler's own binary16 is the second opinion.
float Widen(uint16_t half) {
  return static_cast<float>(std::bit_cast<_Float16>(half));
}
uint16_t Narrow(float value) {
  return std::bit_cast<uint16_t>(static_cast<_Float16>(value));
}

TEST(Float16Test, AllHalvesWidenExactly) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    if (std::isnan(Widen(half))) {
      EXPECT_TRUE(std::isnan(F16ToF32(half))) << bits;
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(F16ToF32(half)),
                std::bit_cast<uint32_t>(Widen(half)))
          << bits;
    }
  }
}

TEST(Float16Test, AllHalvesSurviveARoundTrip) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    if (std::isnan(Widen(half))) {
      EXPECT_TRUE(std::isnan(Widen(F32ToF16(F16ToF32(half))))) << bits;
    } else {
      EXPECT_EQ(F32ToF16(F16ToF32(half)), half);
    }
  }
}

TEST(Float16Test, HalfwayCasesGoToEvenAndTheirNeighboursToTheNearest) {
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const float low = F16ToF32(static_cast<uint16_t>(bits));
    const float high = F16ToF32(static_cast<uint16_t>(bits + 1));
    const float middle = low + (high - low) / 2;  // exact in F32
    const auto even = static_cast<uint16_t>(bits % 2 == 0 ? bits : bits + 1);
    EXPECT_EQ(F32ToF16(middle), even) << bits;
    EXPECT_EQ(F32ToF16(-middle), even | 0x8000) << bits;
    EXPECT_EQ(F32ToF16(std::nextafter(middle, low)), bits);
    EXPECT_EQ(F32ToF16(std::nextafter(middle, high)), bits + 1);
  }
}

TEST(Float16Test, RandomFloatsRoundAsTheCompilerRounds) {
  Random random(1);
  for (int i = 0; i < 2'000'000; ++i) {
    const auto bits = static_cast<uint32_t>(random.Next());
    const float value = std::bit_cast<float>(bits);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(Widen(F32ToF16(value))));
    } else {
      ASSERT_EQ(F32ToF16(value), Narrow(value)) << value;
    }
    // Most random floats are out of range; this one has an F16 exponent.
    const float near = std::ldexp(random.Uniform(-1.0f, 1.0f),
                                  static_cast<int>(random.Below(44)) - 26);
    ASSERT_EQ(F32ToF16(near), Narrow(near)) << near;
  }
}

TEST(Float16Test, OverflowGivesInfinity) {
  EXPECT_EQ(F32ToF16(65504.0f), 0x7bff);
  EXPECT_EQ(F32ToF16(65519.996f), 0x7bff);
  EXPECT_EQ(F32ToF16(65520.0f), 0x7c00);
  EXPECT_EQ(F32ToF16(-1e30f), 0xfc00);
  EXPECT_EQ(F32ToF16(std::numeric_limits<float>::infinity()), 0x7c00);
}

TEST(BFloat16Test, AllValuesSurviveARoundTrip) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto bf16 = static_cast<uint16_t>(bits);
    const float value = BF16ToF32(bf16);
    EXPECT_EQ(std::bit_cast<uint32_t>(value), bits << 16);
    if (std::isnan(value)) {
      EXPECT_EQ(F32ToBF16(value), bits | 0x40);
    } else {
      EXPECT_EQ(F32ToBF16(value), bf16);
    }
  }
}

TEST(BFloat16Test, RoundsToNearestEven) {
  EXPECT_EQ(F32ToBF16(std::bit_cast<float>(0x3f808000u)), 0x3f80);
  EXPECT_EQ(F32ToBF16(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(F32ToBF16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(F32ToBF16(std::bit_cast<float>(0x3f807fffu)), 0x3f80);
  EXPECT_EQ(F32ToBF16(std::bit_cast<float>(0xbf818000u)), 0xbf82);
  // The largest floats are nearer to infinity than to a BF16.
  EXPECT_EQ(F32ToBF16(std::numeric_limits<float>::max()), 0x7f80);
  // A NaN whose payload is all in the lower half stays a NaN.
  EXPECT_EQ(F32ToBF16(std::bit_cast<float>(0x7f800001u)), 0x7fc0);
}

}  // namespace
}  // namespace thermocline
