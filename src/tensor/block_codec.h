// One block at a time, in both directions: what codec.cc loops over.
#ifndef THERMOCLINE_TENSOR_BLOCK_CODEC_H_
#define THERMOCLINE_TENSOR_BLOCK_CODEC_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "tensor/blocks.h"
#include "tensor/float16.h"

namespace thermocline {

// dst and src hold one block's elements: 32, or 256 for the K types.
void DecodeBlock(const BlockQ8_0& block, float* dst);
void DecodeBlock(const BlockQ4_0& block, float* dst);
void DecodeBlock(const BlockQ4_1& block, float* dst);
void DecodeBlock(const BlockQ5_0& block, float* dst);
void DecodeBlock(const BlockQ5_1& block, float* dst);
void DecodeBlock(const BlockQ4_K& block, float* dst);
void DecodeBlock(const BlockQ5_K& block, float* dst);
void DecodeBlock(const BlockQ6_K& block, float* dst);

void EncodeBlock(const float* src, BlockQ8_0& block);
void EncodeBlock(const float* src, BlockQ4_0& block);
void EncodeBlock(const float* src, BlockQ4_1& block);
void EncodeBlock(const float* src, BlockQ5_0& block);
void EncodeBlock(const float* src, BlockQ5_1& block);
void EncodeBlock(const float* src, BlockQ4_K& block);
void EncodeBlock(const float* src, BlockQ5_K& block);
void EncodeBlock(const float* src, BlockQ6_K& block);

// A scale as a block stores it. Stays finite whatever the weights were.
inline uint16_t EncodeScale(float scale) {
  if (std::isnan(scale)) return 0;
  return F32ToF16(std::clamp(scale, -kMaxF16, kMaxF16));
}

// 1 / scale, or 0 where that is not finite: the block is then all zero.
inline float Reciprocal(float scale) {
  const float inverse = 1.0f / scale;
  return std::isfinite(inverse) ? inverse : 0.0f;
}

// Into [low, high]; NaN gives low, so that the conversion to an integer that
// follows is defined.
inline float ClampNumber(float value, float low, float high) {
  const float raised = value > low ? value : low;
  return raised < high ? raised : high;
}

// The nearest integer in [low, high], ties to even. Requires |low|, |high| <
// 2^22: adding 1.5 * 2^23 leaves no bit for a fraction.
inline int RoundInto(float value, float low, float high) {
  constexpr float kNoFraction = 12582912.0f;
  const float clamped = ClampNumber(value, low, high);
  return static_cast<int>((clamped + kNoFraction) - kNoFraction);
}

// The number of largest magnitude, with its sign; the first one of equals.
inline float SignedPeak(const float* values, int count) {
  float peak = 0.0f;
  float magnitude = 0.0f;
  for (int i = 0; i < count; ++i) {
    const float other = std::fabs(values[i]);
    if (other > magnitude) {
      magnitude = other;
      peak = values[i];
    }
  }
  return peak;
}

}  // namespace thermocline

#endif  // THERMOCLINE_TENSOR_BLOCK_CODEC_H_
