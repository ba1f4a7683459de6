// What the codec tests share: blocks as bytes, errors, inputs.
#ifndef THERMOCLINE_TENSOR_CODEC_TEST_UTIL_H_
#define THERMOCLINE_TENSOR_CODEC_TEST_UTIL_H_

#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <span>
#include <vector>

#include "base/random.h"
#include "tensor/codec.h"
#include "tensor/float16.h"

namespace thermocline {

inline constexpr DType kQuantized[] = {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1,
                                       DType::kQ5_0, DType::kQ5_1, DType::kQ4_K,
                                       DType::kQ5_K, DType::kQ6_K};

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Roughly Gaussian, as weights are.
inline std::vector<float> GaussianRow(size_t n, uint64_t seed, float sigma) {
  Random random(seed);
  std::vector<float> row(n);
  for (float& x : row) {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - random.Uniform()));
    x = sigma * static_cast<float>(
                    radius * std::cos(2 * std::numbers::pi * random.Uniform()));
  }
  return row;
}

inline std::vector<std::byte> Quantize(DType dtype, std::span<const float> x) {
  std::vector<std::byte> bytes(BytesOf(dtype, x.size()));
  QuantizeRow(dtype, x, bytes.data());
  return bytes;
}

inline std::vector<float> Dequantize(DType dtype,
                                     std::span<const std::byte> bytes) {
  const DTypeInfo& info = InfoOf(dtype);
  std::vector<float> row(bytes.size() / info.block_bytes * info.block_elems);
  DequantizeRow(dtype, bytes.data(), row);
  return row;
}

// Root of the squared error over the squared signal.
inline double RelativeError(std::span<const float> truth,
                            std::span<const float> approximation) {
  double error = 0.0;
  double signal = 0.0;
  for (size_t i = 0; i < truth.size(); ++i) {
    const double diff = double{truth[i]} - double{approximation[i]};
    error += diff * diff;
    signal += double{truth[i]} * double{truth[i]};
  }
  return std::sqrt(error / signal);
}

// Random bytes with finite half-precision scales at the given offsets.
inline std::vector<std::byte> RandomBlock(DType dtype, Random& random,
                                          std::span<const int> scale_offsets) {
  std::vector<std::byte> block(InfoOf(dtype).block_bytes);
  for (std::byte& b : block) b = static_cast<std::byte>(random.Next());
  for (const int offset : scale_offsets) {
    const uint16_t scale = F32ToF16(random.Uniform(-2.0f, 2.0f));
    std::memcpy(&block[static_cast<size_t>(offset)], &scale, sizeof(scale));
  }
  return block;
}

inline double HalfAt(std::span<const std::byte> block, size_t offset) {
  uint16_t half = 0;
  std::memcpy(&half, &block[offset], sizeof(half));
  return double{F16ToF32(half)};
}

inline int ByteAt(std::span<const std::byte> block, size_t offset) {
  return static_cast<int>(block[offset]);
}

}  // namespace thermocline

#endif  // THERMOCLINE_TENSOR_CODEC_TEST_UTIL_H_
