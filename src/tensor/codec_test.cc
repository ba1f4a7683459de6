#include "tensor/codec.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tensor/codec_test_util.h"

namespace thermocline {
namespace {

TEST(CodecTest, FloatTypesConvertElementByElement) {
  const std::vector<float> row = {0.0f, -1.5f, 1.0f / 3.0f, 70000.0f, 1e-7f};
  EXPECT_EQ(Dequantize(DType::kF32, Quantize(DType::kF32, row)), row);
  const auto f16 = Dequantize(DType::kF16, Quantize(DType::kF16, row));
  const auto bf16 = Dequantize(DType::kBF16, Quantize(DType::kBF16, row));
  for (size_t i = 0; i < row.size(); ++i) {
    EXPECT_EQ(f16[i], F16ToF32(F32ToF16(row[i])));
    EXPECT_EQ(bf16[i], BF16ToF32(F32ToBF16(row[i])));
  }
}

TEST(CodecTest, EmptyRowsAreFine) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kQ4_K}) {
    QuantizeRow(dtype, {}, nullptr);
    DequantizeRow(dtype, nullptr, {});
  }
}

TEST(CodecTest, UnalignedBytes) {
  const auto row = GaussianRow(512, 8, 1.0f);
  for (const DType dtype : kQuantized) {
    std::vector<std::byte> buffer(BytesOf(dtype, row.size()) + 1);
    QuantizeRow(dtype, row, buffer.data() + 1);
    const auto aligned = Quantize(dtype, row);
    EXPECT_TRUE(std::equal(aligned.begin(), aligned.end(), buffer.begin() + 1));
    std::vector<float> back(row.size());
    DequantizeRow(dtype, buffer.data() + 1, back);
    EXPECT_EQ(back, Dequantize(dtype, aligned));
  }
}

TEST(CodecTest, ZeroRowsStayZero) {
  const std::vector<float> row(512, 0.0f);
  for (const DType dtype : kQuantized) {
    for (const float x : Dequantize(dtype, Quantize(dtype, row))) {
      EXPECT_EQ(x, 0.0f) << NameOf(dtype);
    }
  }
}

// Steps below 2^-14 are F16 subnormals with few bits: coarse, but of the right
// size. Below them nothing is left.
TEST(CodecTest, TinyRows) {
  for (const DType dtype : kQuantized) {
    const auto small = GaussianRow(512, 9, 1e-4f);
    EXPECT_LT(RelativeError(small, Dequantize(dtype, Quantize(dtype, small))),
              0.6)
        << NameOf(dtype);
    for (const float sigma : {1e-20f, 1e-30f, 1e-40f}) {
      const auto tiny = GaussianRow(512, 10, sigma);
      for (const float x : Dequantize(dtype, Quantize(dtype, tiny))) {
        EXPECT_LT(std::fabs(x), 1e-6f) << NameOf(dtype);
      }
    }
  }
}

TEST(CodecTest, HugeRowsGiveFiniteBlocks) {
  for (const DType dtype : kQuantized) {
    for (const float sigma : {1e6f, 1e20f, 1e37f}) {
      const auto row = GaussianRow(512, 11, sigma);
      for (const float x : Dequantize(dtype, Quantize(dtype, row))) {
        EXPECT_TRUE(std::isfinite(x)) << NameOf(dtype) << " " << sigma;
      }
    }
  }
}

TEST(CodecTest, NonFiniteInputGivesValidBlocks) {
  for (const DType dtype : kQuantized) {
    for (const float bad : {kInf, -kInf, kNan}) {
      for (const size_t at : {size_t{0}, size_t{77}, size_t{255}}) {
        auto row = GaussianRow(256, 12, 1.0f);
        row[at] = bad;
        for (const float x : Dequantize(dtype, Quantize(dtype, row))) {
          EXPECT_TRUE(std::isfinite(x)) << NameOf(dtype);
        }
      }
      const std::vector<float> all(256, bad);
      for (const float x : Dequantize(dtype, Quantize(dtype, all))) {
        EXPECT_TRUE(std::isfinite(x)) << NameOf(dtype);
      }
    }
  }
}

TEST(CodecTest, ErrorFallsWithBits) {
  const auto row = GaussianRow(256 * 32, 13, 0.05f);
  const auto error = [&](DType dtype) {
    return RelativeError(row, Dequantize(dtype, Quantize(dtype, row)));
  };
  EXPECT_LT(error(DType::kF16), 3e-4);
  EXPECT_LT(error(DType::kBF16), 3e-3);
  EXPECT_LT(error(DType::kQ8_0), 0.007);
  EXPECT_LT(error(DType::kQ5_0), 0.05);
  EXPECT_LT(error(DType::kQ5_1), 0.05);
  EXPECT_LT(error(DType::kQ4_0), 0.10);
  EXPECT_LT(error(DType::kQ4_1), 0.10);
}

TEST(FindNonFiniteTest, FloatsAreFoundByIndex) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    std::vector<float> row(33, 1.0f);
    auto bytes = Quantize(dtype, row);
    EXPECT_EQ(FindNonFinite({dtype, {{11, 3, 1, 1}, 2}, bytes.data()}),
              std::nullopt);
    row[32] = -kInf;
    bytes = Quantize(dtype, row);
    EXPECT_EQ(FindNonFinite({dtype, {{11, 3, 1, 1}, 2}, bytes.data()}), 32u);
    row[7] = kNan;
    bytes = Quantize(dtype, row);
    EXPECT_EQ(FindNonFinite({dtype, {{11, 3, 1, 1}, 2}, bytes.data()}), 7u);
  }
}

TEST(FindNonFiniteTest, QuantizedBlocksAreFoundByTheirScales) {
  const std::vector<float> row(1024, 1.0f);
  for (const DType dtype : kQuantized) {
    auto bytes = Quantize(dtype, row);
    const TensorView view = {dtype, {{512, 2, 1, 1}, 2}, bytes.data()};
    EXPECT_EQ(FindNonFinite(view), std::nullopt);
    const bool has_minimum = dtype == DType::kQ4_1 || dtype == DType::kQ5_1 ||
                             dtype == DType::kQ4_K || dtype == DType::kQ5_K;
    for (const size_t field : {size_t{0}, size_t{has_minimum ? 2u : 0u}}) {
      auto broken = bytes;
      const size_t offset = dtype == DType::kQ6_K ? 208 : field;
      const uint16_t nan = 0x7e00;
      std::memcpy(&broken[2 * InfoOf(dtype).block_bytes + offset], &nan, 2);
      EXPECT_EQ(FindNonFinite({dtype, view.shape, broken.data()}),
                2 * InfoOf(dtype).block_elems)
          << NameOf(dtype);
    }
  }
}

// Rows a stride apart: what lies between them is somebody else's.
TEST(FindNonFiniteTest, RowsOfRecords) {
  constexpr size_t kStride = 1200;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kQ8_0}) {
    const auto good = Quantize(dtype, std::vector<float>(256, 1.0f));
    std::vector<std::byte> records(3 * kStride, std::byte{0xff});
    for (size_t i = 0; i < 3; ++i) {
      std::ranges::copy(good, records.begin() + i * kStride);
    }
    const TensorView view = {
        dtype, {{256, 3, 1, 1}, 2}, records.data(), kStride};
    EXPECT_EQ(FindNonFinite(view), std::nullopt) << NameOf(dtype);
    std::fill_n(records.begin() + 2 * kStride, 4, std::byte{0xff});
    EXPECT_EQ(FindNonFinite(view), 512u) << NameOf(dtype);
  }
}

TEST(CodecDeathTest, MisuseIsCaught) {
  std::vector<float> row(33);
  std::vector<std::byte> bytes(1024);
  EXPECT_DEATH(QuantizeRow(DType::kQ4_0, row, bytes.data()), "check failed");
  EXPECT_DEATH(DequantizeRow(DType::kQ2_K, bytes.data(), {}), "check failed");
}

}  // namespace
}  // namespace thermocline
