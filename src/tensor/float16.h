// Conversions between F32 and the two 16-bit float formats; scalar reference.
#ifndef THERMOCLINE_TENSOR_FLOAT16_H_
#define THERMOCLINE_TENSOR_FLOAT16_H_

#include <bit>
#include <cstdint>

namespace thermocline {

// IEEE binary16, exact, subnormals, infinities and NaN included.
inline float F16ToF32(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0) {  // zero and subnormals: multiples of 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  if (exponent == 31) {
    return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  }
  // The exponent field of an F32 lies 127 - 15 above that of an F16.
  return std::bit_cast<float>(
      sign | ((exponent << 23 | mantissa << 13) + (112u << 23)));
}

// The largest finite one.
inline constexpr float kMaxF16 = 65504.0f;

// Round to nearest, ties to even; overflow gives infinity; NaN stays NaN.
uint16_t F32ToF16(float value);

// BF16 is the upper half of an F32; exact.
inline float BF16ToF32(uint16_t bf16) {
  return std::bit_cast<float>(static_cast<uint32_t>(bf16) << 16);
}

// Round to nearest, ties to even; NaN stays NaN (made quiet).
uint16_t F32ToBF16(float value);

}  // namespace thermocline

#endif  // THERMOCLINE_TENSOR_FLOAT16_H_
