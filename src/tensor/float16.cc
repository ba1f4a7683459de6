#include "tensor/float16.h"

#include <bit>

namespace thermocline {
namespace {

constexpr uint32_t kF32Sign = 0x80000000u;
constexpr uint32_t kF32Infinity = 0x7f800000u;
// How far the exponent field of an F32 lies above that of an F16: (127 - 15).
constexpr uint32_t kExponentShift = 112u << 23;
constexpr uint32_t kF16MinNormal = 0x38800000u;  // 2^-14 as F32
constexpr uint32_t kF16Limit = 0x47800000u;      // 2^16 as F32

}  // namespace

uint16_t F32ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits & kF32Sign) >> 16;
  const uint32_t magnitude = bits & ~kF32Sign;
  uint32_t half = 0;
  if (magnitude > kF32Infinity) {
    half = 0x7e00u | (magnitude >> 13 & 0x3ffu);
  } else if (magnitude >= kF16Limit) {
    half = 0x7c00u;
  } else if (magnitude < kF16MinNormal) {
    // Floats in [0.5, 1) are 2^-24 apart, the distance of F16 subnormals: the
    // addition rounds just as the conversion has to.
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    half = std::bit_cast<uint32_t>(sum) - std::bit_cast<uint32_t>(0.5f);
  } else {
    // A carry out of the mantissa moves to the next exponent, or to infinity.
    const uint32_t tie_to_even = magnitude >> 13 & 1u;
    half = (magnitude + 0xfffu + tie_to_even - kExponentShift) >> 13;
  }
  return static_cast<uint16_t>(sign | half);
}

uint16_t F32ToBF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & ~kF32Sign) > kF32Infinity) {
    return static_cast<uint16_t>(bits >> 16 | 0x40u);
  }
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

}  // namespace thermocline
