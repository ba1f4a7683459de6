#include "npu/quantize_row.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "tensor/float16.h"

namespace thermocline::npu {
namespace {

// Bell-shaped, as weights are.
std::vector<float> BellRow(size_t size, uint64_t seed, float sigma) {
  Random random(seed);
  std::vector<float> row(size);
  for (float& x : row) {
    float sum = 0.0f;
    for (int i = 0; i < 12; ++i) sum += random.Uniform(-0.5f, 0.5f);
    x = sigma * sum;
  }
  return row;
}

double RelativeError(const std::vector<float>& x, const RowScale& scale,
                     const std::vector<int8_t>& codes, bool is_unsigned) {
  double error = 0.0;
  double power = 0.0;
  for (size_t i = 0; i < x.size(); ++i) {
    const int code = is_unsigned ? static_cast<uint8_t>(codes[i]) : codes[i];
    const double y = double{F16ToF32(scale.scale)} * (code - scale.zero);
    error += (y - double{x[i]}) * (y - double{x[i]});
    power += double{x[i]} * double{x[i]};
  }
  return std::sqrt(error / power);
}

// Bounds: a step over sqrt(12) for what is not cut off; 4 bits of a bell shape
// cannot be better than 0.107 (Max 1960).
TEST(QuantizeRowTest, ErrorsAreThoseOfTheNumberOfBits) {
  const std::vector<float> x = BellRow(2048, 3, 0.02f);
  std::vector<int8_t> codes(x.size());
  const auto i8 = QuantizeI8(x, codes.data());
  EXPECT_LT(RelativeError(x, *i8, codes, false), 0.01);
  const auto i4 = QuantizeI4(x, codes.data());
  EXPECT_LT(RelativeError(x, *i4, codes, false), 0.115);
  const auto u8 = QuantizeWithZero(x, 255, codes.data());
  EXPECT_LT(RelativeError(x, *u8, codes, true), 0.01);
  const auto u4 = QuantizeWithZero(x, 15, codes.data());
  EXPECT_LT(RelativeError(x, *u4, codes, true), 0.15);
}

TEST(QuantizeRowTest, AllCodesOfFourBitsAreUsed) {
  // The largest is negative, or positive: 8 steps either way.
  for (const float sign : {1.0f, -1.0f}) {
    std::vector<float> x;
    for (int i = -8; i < 8; ++i) x.push_back(sign * static_cast<float>(i));
    std::vector<int8_t> codes(x.size());
    const auto scale = QuantizeI4(x, codes.data());
    EXPECT_EQ(RelativeError(x, *scale, codes, false), 0.0);
    EXPECT_EQ(codes.front(), -8);
  }
}

TEST(QuantizeRowTest, ZeroPointsAreNumbersOfTheRange) {
  const std::vector<float> all_positive = {1.0f, 2.0f, 3.0f};
  std::vector<int8_t> codes(3);
  const auto scale = QuantizeWithZero(all_positive, 15, codes.data());
  EXPECT_EQ(scale->zero, 0);
  EXPECT_EQ(codes, (std::vector<int8_t>{5, 10, 15}));
  const std::vector<float> all_negative = {-1.0f, -2.0f, -3.0f};
  const auto below = QuantizeWithZero(all_negative, 255, codes.data());
  EXPECT_EQ(below->zero, 255);
}

TEST(QuantizeRowTest, ZerosStayZeros) {
  const std::vector<float> x(40, 0.0f);
  std::vector<int8_t> codes(x.size(), 1);
  for (const auto& scale :
       {QuantizeI8(x, codes.data()), QuantizeI4(x, codes.data()),
        QuantizeWithZero(x, 15, codes.data())}) {
    EXPECT_EQ(scale->scale, 0);
    EXPECT_EQ(codes, std::vector<int8_t>(x.size(), 0));
  }
}

TEST(QuantizeRowTest, HalvesAreThoseOfTheReference) {
  std::vector<float> x = {0.0f,    -0.0f,   65504.0f, 1e-8f, 6.1e-5f,
                          5.9e-5f, 1.0005f, -3.3e-5f, 2e-24f};
  Random random(5);
  for (int i = 0; i < 5000; ++i) {
    const auto bits = static_cast<uint32_t>(random.Next());
    const float value = std::bit_cast<float>(bits);
    if (std::abs(value) <= kMaxF16) x.push_back(value);
    x.push_back(random.Uniform(-1e-4f, 1e-4f));
  }
  std::vector<uint16_t> halves(x.size());
  ASSERT_TRUE(ToHalves(x, halves.data()));
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(halves[i], F32ToF16(x[i])) << x[i];
  }
}

TEST(QuantizeRowTest, WhatF16CannotHoldIsRefused) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const float wrong : {inf, -inf, std::nanf(""), 70000.0f}) {
    std::vector<float> x(20, 1.0f);
    x[17] = wrong;
    std::vector<int8_t> codes(x.size());
    std::vector<uint16_t> halves(x.size());
    EXPECT_FALSE(QuantizeI8(x, codes.data())) << wrong;
    EXPECT_FALSE(QuantizeI4(x, codes.data()));
    EXPECT_FALSE(QuantizeWithZero(x, 15, codes.data()));
    EXPECT_EQ(ToHalves(x, halves.data()).error().code,
              ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace thermocline::npu
