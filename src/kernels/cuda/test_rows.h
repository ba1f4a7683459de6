// Matrices in the device's layouts for tests, and the values that they stand
// for.
#ifndef THERMOCLINE_KERNELS_CUDA_TEST_ROWS_H_
#define THERMOCLINE_KERNELS_CUDA_TEST_ROWS_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/random.h"
#include "kernels/cuda/device_rows.h"
#include "kernels/cuda/test_launch.h"
#include "kernels/device_ops.h"
#include "tensor/blocks.h"
#include "tensor/codec.h"
#include "tensor/dtype.h"
#include "tensor/float16.h"

namespace thermocline::cuda {

inline constexpr DType kRowTypes[] = {DType::kF16,  DType::kBF16, DType::kQ8_0,
                                      DType::kQ4_0, DType::kQ4_K, DType::kQ5_K,
                                      DType::kQ6_K};

template <typename Block, typename Set>
void FillBlocks(size_t n, Random& random, std::byte* row, const Set& set) {
  const size_t elements = sizeof(Block) > 34 ? kSuperBlock : kBlock;
  for (size_t b = 0; b < n / elements; ++b) {
    Block block;
    uint8_t bytes[sizeof(Block)];
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.Next());
    std::memcpy(&block, bytes, sizeof block);
    set(block);
    std::memcpy(row + b * sizeof block, &block, sizeof block);
  }
}

// A row as in a file: any bits but for the scales, weights around 0.1.
inline std::vector<std::byte> RandomFileRow(DType dtype, size_t n,
                                            Random& random) {
  std::vector<std::byte> row(BytesOf(dtype, n));
  std::byte* out = row.data();
  const auto scale = [&](float about) {
    return F32ToF16(random.Uniform(0.5f * about, 1.5f * about));
  };
  switch (dtype) {
    case DType::kQ8_0:
      FillBlocks<BlockQ8_0>(n, random, out,
                            [&](BlockQ8_0& b) { b.d = scale(0.002f); });
      break;
    case DType::kQ4_0:
      FillBlocks<BlockQ4_0>(n, random, out,
                            [&](BlockQ4_0& b) { b.d = scale(0.02f); });
      break;
    case DType::kQ4_K:
      FillBlocks<BlockQ4_K>(n, random, out, [&](BlockQ4_K& b) {
        b.d = scale(0.0008f);
        b.dmin = scale(0.006f);
      });
      break;
    case DType::kQ5_K:
      FillBlocks<BlockQ5_K>(n, random, out, [&](BlockQ5_K& b) {
        b.d = scale(0.0004f);
        b.dmin = scale(0.006f);
      });
      break;
    case DType::kQ6_K:
      FillBlocks<BlockQ6_K>(n, random, out,
                            [&](BlockQ6_K& b) { b.d = scale(0.0001f); });
      break;
    default: {
      std::vector<float> values(n);
      for (float& v : values) v = random.Uniform(-0.2f, 0.2f);
      QuantizeRow(dtype, values, out);
    }
  }
  return row;
}

// A matrix of random rows, packed, and its values.
struct TestMatrix {
  DType dtype;
  size_t num_rows, n, row_bytes;
  std::vector<float> values;    // [num_rows, n]
  std::vector<std::byte> rows;  // [num_rows, row_bytes]

  TestMatrix(DType type, size_t row_count, size_t width, Random& random)
      : dtype(type),
        num_rows(row_count),
        n(width),
        row_bytes(DeviceRowBytes(type, width)),
        values(row_count * width),
        rows(row_count * row_bytes) {
    for (size_t r = 0; r < num_rows; ++r) {
      const std::vector<std::byte> row = RandomFileRow(dtype, n, random);
      DequantizeRow(dtype, row.data(), std::span(values).subspan(r * n, n));
      PackDeviceRow(dtype, row.data(), n, &rows[r * row_bytes]);
    }
  }
  kernels::DeviceMatrix On(const std::byte* device) const {
    return {device, row_bytes, dtype, static_cast<uint32_t>(num_rows),
            static_cast<uint32_t>(n)};
  }
  double Dot(size_t row, std::span<const double> x) const {
    double sum = 0;
    for (size_t j = 0; j < n; ++j) {
      sum += static_cast<double>(values[row * n + j]) * x[j];
    }
    return sum;
  }
};

// A row of x as a product with weights of the type sees it.
inline std::vector<double> SeenX(DType dtype, std::span<const float> x) {
  std::vector<double> seen(x.begin(), x.end());
  if (IsFloat(dtype)) return seen;
  for (size_t begin = 0; begin < x.size(); begin += kBlock) {
    float largest = 0.0f;
    for (size_t k = 0; k < kBlock; ++k) {
      largest = std::fmax(largest, std::fabs(x[begin + k]));
    }
    const float scale = largest / 127.0f;
    for (size_t k = begin; k < begin + kBlock; ++k) {
      seen[k] = scale > 0 ? double{std::nearbyint(x[k] / scale)} * scale : 0.0;
    }
  }
  return seen;
}

}  // namespace thermocline::cuda

#endif  // THERMOCLINE_KERNELS_CUDA_TEST_ROWS_H_
