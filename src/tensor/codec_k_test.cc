// The layouts are derived here a second time, element by element from byte
// offsets, without the structs of blocks.h.
#include <gtest/gtest.h>

#include <utility>

#include "tensor/blocks.h"
#include "tensor/codec_test_util.h"

namespace thermocline {
namespace {

using Block = std::span<const std::byte>;

struct ScaleAndMin {
  int scale;
  int min;
};

// The twelve bytes at offset 4, read as the format's description has them.
ScaleAndMin SixBits(Block block, size_t i) {
  const auto s = [&](size_t k) { return ByteAt(block, 4 + k); };
  if (i < 4) return {s(i) & 63, s(i + 4) & 63};
  return {(s(i + 4) & 15) | ((s(i - 4) >> 6) << 4),
          (s(i + 4) >> 4) | ((s(i) >> 6) << 4)};
}

double ElemQ4_K(Block b, size_t e) {
  const size_t i = e / 32;
  const int byte = ByteAt(b, 16 + 32 * (i / 2) + e % 32);
  const int level = i % 2 == 0 ? byte % 16 : byte / 16;
  const ScaleAndMin sm = SixBits(b, i);
  return HalfAt(b, 0) * sm.scale * level - HalfAt(b, 2) * sm.min;
}

double ElemQ5_K(Block b, size_t e) {
  const size_t i = e / 32;
  const int byte = ByteAt(b, 48 + 32 * (i / 2) + e % 32);
  const int fifth = ByteAt(b, 16 + e % 32) >> i & 1;
  const int level = (i % 2 == 0 ? byte % 16 : byte / 16) + 16 * fifth;
  const ScaleAndMin sm = SixBits(b, i);
  return HalfAt(b, 0) * sm.scale * level - HalfAt(b, 2) * sm.min;
}

double ElemQ6_K(Block b, size_t e) {
  const size_t h = e / 128;
  const size_t g = e % 128 / 32;
  const size_t l = e % 32;
  const int byte = ByteAt(b, 64 * h + l + (g % 2 == 1 ? 32 : 0));
  const int low = g < 2 ? byte % 16 : byte / 16;
  const int high = ByteAt(b, 128 + 32 * h + l) >> (2 * g) & 3;
  const int scale = ByteAt(b, 192 + 8 * h + 2 * g + l / 16);
  return HalfAt(b, 208) * (scale < 128 ? scale : scale - 256) *
         (low + 16 * high - 32);
}

void CheckDecoding(DType dtype, std::vector<int> scale_offsets,
                   double (*elem)(Block, size_t)) {
  Random random(5);
  for (int round = 0; round < 100; ++round) {
    const auto block = RandomBlock(dtype, random, scale_offsets);
    const auto row = Dequantize(dtype, block);
    ASSERT_EQ(row.size(), 256u);
    for (size_t e = 0; e < row.size(); ++e) {
      const double expected = elem(block, e);
      // Both products are up to 63 * 31 * 2: the difference may cancel.
      ASSERT_NEAR(row[e], expected, 1e-3) << NameOf(dtype) << " element " << e;
    }
  }
}

TEST(CodecKTest, RandomQ4_KDecodesAsTheTableSays) {
  CheckDecoding(DType::kQ4_K, {0, 2}, ElemQ4_K);
}
TEST(CodecKTest, RandomQ5_KDecodesAsTheTableSays) {
  CheckDecoding(DType::kQ5_K, {0, 2}, ElemQ5_K);
}
TEST(CodecKTest, RandomQ6_KDecodesAsTheTableSays) {
  CheckDecoding(DType::kQ6_K, {208}, ElemQ6_K);
}

TEST(CodecKTest, UnpackScalesOfAHandMadeHeader) {
  // scale 3 = 0b110101 (53), min 7 = 0b101100 (44), everything else zero.
  uint8_t packed[12] = {};
  packed[3] = 53;
  packed[11] = 12 << 4;  // low four bits of min 7
  packed[7] = 2 << 6;    // its upper two
  const KScales scales = UnpackScales(packed);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(scales.scale[i], i == 3 ? 53 : 0) << i;
    EXPECT_EQ(scales.min[i], i == 7 ? 44 : 0) << i;
  }
}

// A row that lies on a grid of the type is found again.
TEST(CodecKTest, GridsAreReproduced) {
  Random random(6);
  for (const auto& [dtype, max_level] :
       {std::pair{DType::kQ4_K, 15}, std::pair{DType::kQ5_K, 31}}) {
    std::vector<float> row(256);
    for (size_t e = 0; e < row.size(); ++e) {
      const size_t level = e % 32 < 2 ? e % 2 * static_cast<size_t>(max_level)
                                      : random.Below(max_level + 1);
      row[e] = 0.25f * static_cast<float>(level) - 1.75f;
    }
    const auto back = Dequantize(dtype, Quantize(dtype, row));
    EXPECT_LT(RelativeError(row, back), 2e-3) << NameOf(dtype);
  }
  std::vector<float> row(256);
  for (float& x : row) {
    x = 0.5f * (static_cast<float>(random.Below(64)) - 32.0f);
  }
  for (size_t e = 0; e < 256; e += 16) row[e] = -16.0f;
  const auto back = Dequantize(DType::kQ6_K, Quantize(DType::kQ6_K, row));
  EXPECT_LT(RelativeError(row, back), 2e-3);
}

// For Gaussian weights the error halves with every bit. The bounds are 1 %
// above what the quantisers reach; llama.cpp's would pass none of them but
// Q6_K's (golden_test.cc in quantize/ compares the two).
TEST(CodecKTest, ErrorOfGaussianRows) {
  const auto row = GaussianRow(256 * 64, 7, 0.02f);
  const auto error = [&](DType dtype) {
    return RelativeError(row, Dequantize(dtype, Quantize(dtype, row)));
  };
  EXPECT_LT(error(DType::kQ4_K), 0.0718);
  EXPECT_LT(error(DType::kQ5_K), 0.0352);
  EXPECT_LT(error(DType::kQ6_K), 0.0180);
  EXPECT_LT(error(DType::kQ4_K), error(DType::kQ4_0));
  EXPECT_LT(error(DType::kQ5_K), error(DType::kQ5_0));
}

TEST(CodecKTest, SubBlocksOfOneSignKeepTheirSign) {
  std::vector<float> row(256);
  for (size_t e = 0; e < row.size(); ++e) {
    row[e] = (e / 32 % 2 == 0 ? 1.0f : -1.0f) *
             (1.0f + 0.01f * static_cast<float>(e % 32));
  }
  for (const DType dtype : {DType::kQ4_K, DType::kQ5_K, DType::kQ6_K}) {
    const auto back = Dequantize(dtype, Quantize(dtype, row));
    EXPECT_LT(RelativeError(row, back), 0.05) << NameOf(dtype);
  }
}

// Equal negative elements have no step at all, only a minimum.
TEST(CodecKTest, ConstantNegativeRow) {
  const std::vector<float> row(256, -0.375f);
  for (const DType dtype : {DType::kQ4_K, DType::kQ5_K, DType::kQ6_K}) {
    const auto back = Dequantize(dtype, Quantize(dtype, row));
    EXPECT_LT(RelativeError(row, back), 2e-3) << NameOf(dtype);
  }
}

}  // namespace
}  // namespace thermocline
