#include <bit>
#include <cmath>
#include <cstdint>

#include "cuda_on_host/lane.h"

namespace thermocline::cuda_on_host {

float HalfToFloat(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00) {
    return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ff) << 13);
  }
  // The exponents' offsets differ by 112, also of subnormals.
  const float value = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}

uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return 0x7fff;
  if (magnitude >= 65520.0f) return sign | 0x7c00;
  if (magnitude < 0x1p-14f) {  // a multiple of 2^-24
    return static_cast<uint16_t>(sign | std::lrint(magnitude * 0x1p24f));
  }
  const uint32_t rounded =
      (bits & 0x7fffffff) + 0xfff + (bits >> 13 & 1) - (112u << 23);
  return static_cast<uint16_t>(sign | rounded >> 13);
}

}  // namespace thermocline::cuda_on_host
