// The layouts are derived here a second time, element by element from byte
// offsets, without the structs of blocks.h.
#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "tensor/blocks.h"
#include "tensor/codec_test_util.h"

namespace thermocline {
namespace {

using Block = std::span<const std::byte>;

int Nibble(Block block, size_t quants_at, size_t e) {
  const int byte = ByteAt(block, quants_at + e % 16);
  return e < 16 ? byte % 16 : byte / 16;
}

int FifthBit(Block block, size_t word_at, size_t e) {
  return ByteAt(block, word_at + e / 8) >> (e % 8) & 1;
}

struct Layout {
  DType dtype;
  std::vector<int> scale_offsets;
  std::function<double(Block, size_t)> elem;
};

const Layout kLayouts[] = {
    {DType::kQ8_0,
     {0},
     [](Block b, size_t e) {
       const int q = ByteAt(b, 2 + e);
       return HalfAt(b, 0) * (q < 128 ? q : q - 256);
     }},
    {DType::kQ4_0,
     {0},
     [](Block b, size_t e) { return HalfAt(b, 0) * (Nibble(b, 2, e) - 8); }},
    {DType::kQ4_1,
     {0, 2},
     [](Block b, size_t e) {
       return HalfAt(b, 0) * Nibble(b, 4, e) + HalfAt(b, 2);
     }},
    {DType::kQ5_0,
     {0},
     [](Block b, size_t e) {
       return HalfAt(b, 0) * (Nibble(b, 6, e) + 16 * FifthBit(b, 2, e) - 16);
     }},
    {DType::kQ5_1,
     {0, 2},
     [](Block b, size_t e) {
       return HalfAt(b, 0) * (Nibble(b, 8, e) + 16 * FifthBit(b, 4, e)) +
              HalfAt(b, 2);
     }},
};

TEST(CodecLegacyTest, RandomBlocksDecodeAsTheTableSays) {
  Random random(2);
  for (const Layout& layout : kLayouts) {
    for (int round = 0; round < 200; ++round) {
      const auto block =
          RandomBlock(layout.dtype, random, layout.scale_offsets);
      const auto row = Dequantize(layout.dtype, block);
      ASSERT_EQ(row.size(), 32u);
      for (size_t e = 0; e < row.size(); ++e) {
        const double expected = layout.elem(block, e);
        ASSERT_NEAR(row[e], expected, 1e-6 * (1.0 + std::fabs(expected)))
            << NameOf(layout.dtype) << " element " << e;
      }
    }
  }
}

TEST(CodecLegacyTest, HandMadeQ4_0) {
  BlockQ4_0 block = {F32ToF16(0.5f), {}};
  block.qs[0] = 0xf0;  // element 0: 0, element 16: 15
  block.qs[15] = 0x8c;
  std::vector<float> row(32);
  DequantizeRow(DType::kQ4_0, reinterpret_cast<std::byte*>(&block), row);
  EXPECT_EQ(row[0], -4.0f);
  EXPECT_EQ(row[16], 3.5f);
  EXPECT_EQ(row[15], 2.0f);
  EXPECT_EQ(row[31], 0.0f);
  EXPECT_EQ(row[1], -4.0f);
}

TEST(CodecLegacyTest, Q8_0QuantizesTheRampToItself) {
  std::vector<float> row(32);
  for (int i = 0; i < 32; ++i) row[i] = static_cast<float>(i * 4 - 127 + 3);
  row[0] = -127.0f;
  const auto bytes = Quantize(DType::kQ8_0, row);
  EXPECT_EQ(HalfAt(bytes, 0), 1.0);
  EXPECT_EQ(ByteAt(bytes, 2), 256 - 127);
  EXPECT_EQ(ByteAt(bytes, 33), 0);
  EXPECT_EQ(Dequantize(DType::kQ8_0, bytes), row);
}

TEST(CodecLegacyTest, Q8_0RoundsHalvesAwayFromZero) {
  std::vector<float> row(32, 0.0f);
  row[0] = 127.0f;
  row[1] = 2.5f;
  row[2] = -2.5f;
  const auto back = Dequantize(DType::kQ8_0, Quantize(DType::kQ8_0, row));
  EXPECT_EQ(back[1], 3.0f);
  EXPECT_EQ(back[2], -3.0f);
}

TEST(CodecLegacyTest, Q4_0GivesTheSignedPeakTheExtraStep) {
  std::vector<float> row(32, 0.0f);
  row[3] = 4.0f;
  row[4] = -3.5f;
  const auto bytes = Quantize(DType::kQ4_0, row);
  EXPECT_EQ(HalfAt(bytes, 0), -0.5);
  const auto back = Dequantize(DType::kQ4_0, bytes);
  EXPECT_EQ(back[3], 4.0f);
  EXPECT_EQ(back[4], -3.5f);
}

// Blocks that use their whole range come back bit by bit.
TEST(CodecLegacyTest, QuantizingADecodedBlockReproducesIt) {
  Random random(3);
  for (const Layout& layout : kLayouts) {
    for (int round = 0; round < 200; ++round) {
      auto block = RandomBlock(layout.dtype, random, layout.scale_offsets);
      const float d = random.Uniform(0.01f, 2.0f);
      const uint16_t scale = F32ToF16(d);
      std::memcpy(block.data(), &scale, 2);
      const size_t quants_at = block.size() - (block.size() == 34 ? 32 : 16);
      const bool symmetric =
          layout.dtype == DType::kQ4_0 || layout.dtype == DType::kQ5_0;
      if (layout.dtype == DType::kQ8_0) {
        for (size_t e = 0; e < 32; ++e) {
          if (ByteAt(block, 2 + e) == 128) block[2 + e] = std::byte{0};
        }
        block[quants_at] = std::byte{127};
      } else {  // element 0 at the lowest level, 16 at the highest
        block[quants_at] = std::byte{0xf0};
        const size_t word_at = quants_at - 4;
        if (block.size() == 22 || block.size() == 24) {
          block[word_at] &= std::byte{0xfe};
          block[word_at + 2] |= std::byte{0x01};
        }
      }
      if (!symmetric && layout.dtype != DType::kQ8_0) {
        // A power of two and a minimum of few bits keep the sum exact.
        const uint16_t step = F32ToF16(0.125f);
        const uint16_t low = F32ToF16(-3.0f);
        std::memcpy(&block[0], &step, 2);
        std::memcpy(&block[2], &low, 2);
      }
      EXPECT_EQ(Quantize(layout.dtype, Dequantize(layout.dtype, block)), block)
          << NameOf(layout.dtype);
    }
  }
}

TEST(CodecLegacyTest, ErrorStaysWithinOneStep) {
  for (const Layout& layout : kLayouts) {
    const auto row = GaussianRow(32 * 50, 4, 0.7f);
    const auto bytes = Quantize(layout.dtype, row);
    const auto back = Dequantize(layout.dtype, bytes);
    const size_t block_bytes = InfoOf(layout.dtype).block_bytes;
    for (size_t i = 0; i < row.size(); ++i) {
      const double step =
          std::fabs(HalfAt(bytes, i / 32 * block_bytes)) * 1.001;
      const bool one_sided =
          layout.dtype == DType::kQ4_0 || layout.dtype == DType::kQ5_0;
      // The side without the extra step may be cut by a whole one.
      const double bound = (one_sided ? 1.02 : 0.51) * step + 2e-3;
      ASSERT_LE(std::fabs(row[i] - back[i]), bound) << NameOf(layout.dtype);
    }
  }
}

}  // namespace
}  // namespace thermocline
