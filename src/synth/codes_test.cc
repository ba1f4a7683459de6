#include "synth/codes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tensor/codec.h"

namespace thermocline::synth {
namespace {

constexpr DType kCodeTypes[] = {DType::kF32,  DType::kF16,  DType::kQ8_0,
                                DType::kQ4_0, DType::kQ4_K, DType::kQ6_K};

std::vector<float> Decode(DType dtype, const std::vector<std::byte>& bytes,
                          size_t count) {
  std::vector<float> values(count);
  DequantizeRow(dtype, bytes.data(), values);
  return values;
}

TEST(SynthCodesTest, CodesAreStepsFromTheCentreInEveryType) {
  for (const DType dtype : kCodeTypes) {
    std::vector<uint8_t> codes(512);
    Random random(3);
    FillCodes(dtype, random, codes);
    std::vector<std::byte> bytes(BytesOf(dtype, codes.size()));
    EncodeCodes(dtype, 0.25f, codes, bytes.data());
    const auto values = Decode(dtype, bytes, codes.size());
    const float centre = dtype == DType::kQ4_K   ? 7.5f
                         : dtype == DType::kQ4_0 ? 8.0f
                         : dtype == DType::kQ6_K ? 32.0f
                                                 : 128.0f;
    for (size_t i = 0; i < codes.size(); ++i) {
      ASSERT_EQ(values[i], 0.25f * (static_cast<float>(codes[i]) - centre))
          << NameOf(dtype) << " " << i;
    }
  }
}

TEST(SynthCodesTest, CodesHaveTheStatedDeviationAndNoBias) {
  for (const DType dtype : kCodeTypes) {
    std::vector<uint8_t> codes(1 << 16);
    Random random(4);
    FillCodes(dtype, random, codes);
    std::vector<std::byte> bytes(BytesOf(dtype, codes.size()));
    EncodeCodes(dtype, 1.0f, codes, bytes.data());
    double sum = 0.0;
    double squares = 0.0;
    for (const float x : Decode(dtype, bytes, codes.size())) {
      sum += x;
      squares += static_cast<double>(x) * x;
    }
    const double count = static_cast<double>(codes.size());
    const double deviation = std::sqrt(squares / count);
    EXPECT_NEAR(deviation / CodeDeviation(dtype), 1.0, 0.02) << NameOf(dtype);
    EXPECT_LT(std::abs(sum / count), 0.02 * deviation) << NameOf(dtype);
  }
}

TEST(SynthCodesTest, RowsComeBackAndOppositesStayOpposites) {
  for (const DType dtype : kCodeTypes) {
    std::vector<float> row(256);
    std::vector<float> opposite(256);
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = std::sin(static_cast<float>(i * i));
      opposite[i] = -row[i];
    }
    std::vector<std::byte> bytes(BytesOf(dtype, row.size()));
    EncodeRow(dtype, row, bytes.data());
    const auto got = Decode(dtype, bytes, row.size());
    EncodeRow(dtype, opposite, bytes.data());
    const auto got_opposite = Decode(dtype, bytes, row.size());
    for (size_t i = 0; i < row.size(); ++i) {
      ASSERT_NEAR(got[i], row[i], 0.11f) << NameOf(dtype);
      if (dtype == DType::kQ4_0) {
        ASSERT_EQ(got[i], -got_opposite[i]);
      }
    }
  }
}

TEST(SynthCodesTest, SignsAreStoredAlmostExactly) {
  for (const DType dtype : kCodeTypes) {
    EXPECT_NEAR(SignGain(dtype), 1.0, 0.05) << NameOf(dtype);
  }
  EXPECT_EQ(SignGain(DType::kF16), 1.0);
}

TEST(SynthCodesTest, OtherTypesAreNotMade) {
  EXPECT_FALSE(CanSynthesize(DType::kQ5_K));
  EXPECT_FALSE(CanSynthesize(DType::kI8));
}

}  // namespace
}  // namespace thermocline::synth
