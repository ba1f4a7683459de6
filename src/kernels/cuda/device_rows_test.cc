#include "kernels/cuda/device_rows.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cuda/test_rows.h"

namespace thermocline::cuda {
namespace {

template <typename T>
T ValueAt(const std::byte* row, size_t offset) {
  T value;
  std::memcpy(&value, row + offset, sizeof value);
  return value;
}

// The level of element e of a packed row whose quants are nibbles.
int LevelOf(DType dtype, const std::byte* row, size_t n, size_t e) {
  const size_t unit = e / 32, at = e % 32, k = at % 16 / 4, byte = at % 4;
  const auto quants = ValueAt<uint8_t>(row, unit * 16 + at % 16);
  int level = at < 16 ? quants & 15 : quants >> 4;
  if (dtype == DType::kQ5_K) {
    const auto bits = ValueAt<uint32_t>(row, n / 2 + n / 16 + unit * 4);
    level |= int(bits >> (8 * byte + k + at / 16 * 4) & 1) << 4;
  } else if (dtype == DType::kQ6_K) {
    const auto bits = ValueAt<uint32_t>(row, n / 2 + unit * 8 + at / 16 * 4);
    level |= int(bits >> (8 * byte + 2 * k) & 3) << 4;
  }
  return level;
}

// As device_rows.h describes the row.
float ElementOf(DType dtype, const std::byte* row, size_t n, size_t e) {
  if (dtype == DType::kF16) return F16ToF32(ValueAt<uint16_t>(row, 2 * e));
  if (dtype == DType::kBF16) return BF16ToF32(ValueAt<uint16_t>(row, 2 * e));
  if (dtype == DType::kQ8_0) {
    return F16ToF32(ValueAt<uint16_t>(row, n + e / 32 * 2)) *
           ValueAt<int8_t>(row, e);
  }
  const auto level = static_cast<float>(LevelOf(dtype, row, n, e));
  if (dtype == DType::kQ4_0) {
    return F16ToF32(ValueAt<uint16_t>(row, n / 2 + e / 32 * 2)) * (level - 8);
  }
  if (dtype == DType::kQ6_K) {
    const size_t at = n / 2 + n / 4;
    return F16ToF32(ValueAt<uint16_t>(row, at + n / 16 + e / 256 * 2)) *
           ValueAt<int8_t>(row, at + e / 16) * (level - 32);
  }
  const size_t head = n / 2 + e / 256 * 16;
  const auto nibble = [&](int word) {
    return ValueAt<uint32_t>(row, head + size_t(word) * 4) >>
               (e % 256 / 32 * 4) &
           15;
  };
  const auto scale = static_cast<float>(nibble(1) | (nibble(3) & 3) << 4);
  const auto min = static_cast<float>(nibble(2) | nibble(3) >> 2 << 4);
  return F16ToF32(ValueAt<uint16_t>(row, head)) * scale * level -
         F16ToF32(ValueAt<uint16_t>(row, head + 2)) * min;
}

TEST(DeviceRows, HoldTheValuesOfTheFile) {
  for (const DType dtype : kRowTypes) {
    SCOPED_TRACE(NameOf(dtype));
    Random random(5);
    for (const size_t blocks : {1, 3, 8}) {
      const size_t n = blocks * InfoOf(dtype).block_elems;
      const TestMatrix matrix(dtype, 2, n, random);
      EXPECT_EQ(matrix.row_bytes % 16, 0u);
      EXPECT_LT(matrix.row_bytes, BytesOf(dtype, n) + 16);
      for (size_t e = 0; e < 2 * n; ++e) {
        ASSERT_EQ(
            ElementOf(dtype, &matrix.rows[e / n * matrix.row_bytes], n, e % n),
            matrix.values[e])
            << "element " << e;
      }
    }
  }
}

TEST(DeviceRows, PadWithZeros) {
  Random random(6);
  const std::vector<std::byte> row = RandomFileRow(DType::kF16, 3, random);
  std::vector<std::byte> out(DeviceRowBytes(DType::kF16, 3), std::byte{0xff});
  ASSERT_EQ(out.size(), 16u);
  PackDeviceRow(DType::kF16, row.data(), 3, out.data());
  for (size_t i = 6; i < 16; ++i) EXPECT_EQ(out[i], std::byte{0});
}

}  // namespace
}  // namespace thermocline::cuda
