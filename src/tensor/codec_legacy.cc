// Q8_0, Q4_0, Q4_1, Q5_0, Q5_1: blocks of 32 with one scale.
#include <cmath>
#include <cstring>

#include "tensor/block_codec.h"

namespace thermocline {
namespace {

// Bits 0-15 belong to the low nibbles, bits 16-31 to the high ones.
uint32_t LoadHighBits(const uint8_t qh[4]) {
  return uint32_t{qh[0]} | uint32_t{qh[1]} << 8 | uint32_t{qh[2]} << 16 |
         uint32_t{qh[3]} << 24;
}

void StoreHighBits(uint32_t bits, uint8_t qh[4]) {
  for (int i = 0; i < 4; ++i) qh[i] = static_cast<uint8_t>(bits >> (8 * i));
}

// Quants q[0..31] below 32 as nibbles (elements j and j + 16 share a byte) and
// the word of their fifth bits.
uint32_t PackNibbles(const int q[32], uint8_t qs[16]) {
  uint32_t high_bits = 0;
  for (int j = 0; j < 16; ++j) {
    qs[j] = static_cast<uint8_t>((q[j] & 15) | (q[j + 16] & 15) << 4);
    high_bits |= static_cast<uint32_t>(q[j] >> 4 & 1) << j;
    high_bits |= static_cast<uint32_t>(q[j + 16] >> 4 & 1) << (j + 16);
  }
  return high_bits;
}

void UnpackNibbles(const uint8_t qs[16], uint32_t high_bits, int q[32]) {
  for (int j = 0; j < 16; ++j) {
    q[j] = (qs[j] & 15) | static_cast<int>(high_bits >> j & 1) << 4;
    q[j + 16] = qs[j] >> 4 | static_cast<int>(high_bits >> (j + 16) & 1) << 4;
  }
}

// std::round as a few operations that a loop of can be vectorised.
int RoundHalfAway(float value) {
  const int whole = static_cast<int>(value);
  const float rest = value - static_cast<float>(whole);  // exact
  return whole + (rest >= 0.5f ? 1 : 0) - (rest <= -0.5f ? 1 : 0);
}

// x = d * (q - zero): the peak gets the one end of the range that has an extra
// step, -zero, so d may be negative. Returns d.
float QuantizeAroundZero(const float* src, int zero, int q[32]) {
  const float d = SignedPeak(src, kBlock) / static_cast<float>(-zero);
  const float inverse = Reciprocal(d);
  const float high = static_cast<float>(2 * zero - 1);
  for (int j = 0; j < kBlock; ++j) {
    const float lifted = src[j] * inverse + static_cast<float>(zero) + 0.5f;
    q[j] = static_cast<int>(ClampNumber(lifted, 0.0f, high));
  }
  return d;
}

struct Range {
  float step;
  float low;
};

// x = step * q + low, q in [0, max_q].
Range QuantizeFromMinimum(const float* src, int max_q, int q[32]) {
  float low = src[0];
  float high = src[0];
  for (int j = 1; j < kBlock; ++j) {
    if (src[j] < low) low = src[j];
    if (src[j] > high) high = src[j];
  }
  const float step = (high - low) / static_cast<float>(max_q);
  const float inverse = Reciprocal(step);
  for (int j = 0; j < kBlock; ++j) {
    const float lifted = (src[j] - low) * inverse + 0.5f;
    q[j] =
        static_cast<int>(ClampNumber(lifted, 0.0f, static_cast<float>(max_q)));
  }
  return {step, low};
}

}  // namespace

void DecodeBlock(const BlockQ8_0& block, float* dst) {
  const float d = F16ToF32(block.d);
  for (int j = 0; j < kBlock; ++j) {
    dst[j] = d * static_cast<float>(block.qs[j]);
  }
}

void EncodeBlock(const float* src, BlockQ8_0& block) {
  const float d = std::fabs(SignedPeak(src, kBlock)) / 127.0f;
  const float inverse = Reciprocal(d);
  block.d = EncodeScale(d);
  for (int j = 0; j < kBlock; ++j) {
    block.qs[j] = static_cast<int8_t>(
        RoundHalfAway(ClampNumber(src[j] * inverse, -127.0f, 127.0f)));
  }
}

void DecodeBlock(const BlockQ4_0& block, float* dst) {
  int q[kBlock];
  UnpackNibbles(block.qs, 0, q);
  const float d = F16ToF32(block.d);
  for (int j = 0; j < kBlock; ++j) dst[j] = d * static_cast<float>(q[j] - 8);
}

void EncodeBlock(const float* src, BlockQ4_0& block) {
  int q[kBlock];
  block.d = EncodeScale(QuantizeAroundZero(src, 8, q));
  PackNibbles(q, block.qs);
}

void DecodeBlock(const BlockQ4_1& block, float* dst) {
  int q[kBlock];
  UnpackNibbles(block.qs, 0, q);
  const float d = F16ToF32(block.d);
  const float m = F16ToF32(block.m);
  for (int j = 0; j < kBlock; ++j) dst[j] = d * static_cast<float>(q[j]) + m;
}

void EncodeBlock(const float* src, BlockQ4_1& block) {
  int q[kBlock];
  const Range range = QuantizeFromMinimum(src, 15, q);
  block.d = EncodeScale(range.step);
  block.m = EncodeScale(range.low);
  PackNibbles(q, block.qs);
}

void DecodeBlock(const BlockQ5_0& block, float* dst) {
  int q[kBlock];
  UnpackNibbles(block.qs, LoadHighBits(block.qh), q);
  const float d = F16ToF32(block.d);
  for (int j = 0; j < kBlock; ++j) dst[j] = d * static_cast<float>(q[j] - 16);
}

void EncodeBlock(const float* src, BlockQ5_0& block) {
  int q[kBlock];
  block.d = EncodeScale(QuantizeAroundZero(src, 16, q));
  StoreHighBits(PackNibbles(q, block.qs), block.qh);
}

void DecodeBlock(const BlockQ5_1& block, float* dst) {
  int q[kBlock];
  UnpackNibbles(block.qs, LoadHighBits(block.qh), q);
  const float d = F16ToF32(block.d);
  const float m = F16ToF32(block.m);
  for (int j = 0; j < kBlock; ++j) dst[j] = d * static_cast<float>(q[j]) + m;
}

void EncodeBlock(const float* src, BlockQ5_1& block) {
  int q[kBlock];
  const Range range = QuantizeFromMinimum(src, 31, q);
  block.d = EncodeScale(range.step);
  block.m = EncodeScale(range.low);
  StoreHighBits(PackNibbles(q, block.qs), block.qh);
}

}  // namespace thermocline
