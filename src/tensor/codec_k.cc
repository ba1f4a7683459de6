// Q4_K, Q5_K, Q6_K: blocks of 256 whose sub-blocks have small integer scales.
#include <algorithm>

#include "tensor/block_codec.h"
#include "tensor/codec.h"
#include "tensor/k_search.h"

namespace thermocline {
namespace {

constexpr int kNumSub = 8;    // sub-blocks of Q4_K and Q5_K
constexpr int kNumSub6 = 16;  // sub-blocks of Q6_K

void PackScales(const KScales& unpacked, uint8_t packed[12]) {
  const auto& sc = unpacked.scale;
  const auto& mn = unpacked.min;
  for (int i = 0; i < 4; ++i) {
    packed[i] = static_cast<uint8_t>(sc[i] | (sc[i + 4] >> 4) << 6);
    packed[i + 4] = static_cast<uint8_t>(mn[i] | (mn[i + 4] >> 4) << 6);
    packed[i + 8] =
        static_cast<uint8_t>((sc[i + 4] & 15) | (mn[i + 4] & 15) << 4);
  }
}

// Sub-blocks 2k and 2k + 1 share the 32 bytes at 32k.
void PackSubBlockNibbles(const uint8_t levels[kSuperBlock], uint8_t qs[128]) {
  for (int k = 0; k < kNumSub / 2; ++k) {
    for (int l = 0; l < kSub; ++l) {
      const uint8_t low = levels[kSub * 2 * k + l];
      const uint8_t high = levels[kSub * (2 * k + 1) + l];
      qs[kSub * k + l] = static_cast<uint8_t>((low & 15) | (high & 15) << 4);
    }
  }
}

// What Q4_K and Q5_K share: everything but fifth bits.
template <typename Block>
void PackAffine(const AffineBlock& fit, Block& block) {
  block.d = fit.d;
  block.dmin = fit.dmin;
  PackScales(fit.scales, block.scales);
  PackSubBlockNibbles(fit.levels, block.qs);
}

uint8_t SubBlockNibble(const uint8_t qs[128], int i, int l) {
  const uint8_t byte = qs[kSub * (i / 2) + l];
  return i % 2 == 0 ? byte & 15 : byte >> 4;
}

// Levels below 64. In each half of the block lane l of four rows of 32 shares
// three bytes: nibbles of rows 0 and 2, nibbles of rows 1 and 3, upper bits.
void PackLevels6(const uint8_t levels[kSuperBlock], BlockQ6_K& block) {
  for (int half = 0; half < 2; ++half) {
    const uint8_t* row = levels + 128 * half;
    uint8_t* low = block.ql + 64 * half;
    uint8_t* high = block.qh + 32 * half;
    for (int l = 0; l < 32; ++l) {
      const int q0 = row[l];
      const int q1 = row[l + 32];
      const int q2 = row[l + 64];
      const int q3 = row[l + 96];
      low[l] = static_cast<uint8_t>((q0 & 15) | (q2 & 15) << 4);
      low[l + 32] = static_cast<uint8_t>((q1 & 15) | (q3 & 15) << 4);
      high[l] = static_cast<uint8_t>(q0 >> 4 | q1 >> 4 << 2 | q2 >> 4 << 4 |
                                     q3 >> 4 << 6);
    }
  }
}

void UnpackLevels6(const BlockQ6_K& block, uint8_t levels[kSuperBlock]) {
  for (int half = 0; half < 2; ++half) {
    uint8_t* row = levels + 128 * half;
    const uint8_t* low = block.ql + 64 * half;
    const uint8_t* high = block.qh + 32 * half;
    for (int l = 0; l < 32; ++l) {
      const int upper = high[l];
      row[l] = static_cast<uint8_t>((low[l] & 15) | (upper & 3) << 4);
      row[l + 32] =
          static_cast<uint8_t>((low[l + 32] & 15) | (upper >> 2 & 3) << 4);
      row[l + 64] = static_cast<uint8_t>(low[l] >> 4 | (upper >> 4 & 3) << 4);
      row[l + 96] = static_cast<uint8_t>(low[l + 32] >> 4 | upper >> 6 << 4);
    }
  }
}

}  // namespace

KScales UnpackScales(const uint8_t packed[12]) {
  KScales unpacked;
  for (int i = 0; i < 4; ++i) {
    unpacked.scale[i] = packed[i] & 63;
    unpacked.min[i] = packed[i + 4] & 63;
    unpacked.scale[i + 4] =
        static_cast<uint8_t>((packed[i + 8] & 15) | (packed[i] >> 6) << 4);
    unpacked.min[i + 4] =
        static_cast<uint8_t>(packed[i + 8] >> 4 | (packed[i + 4] >> 6) << 4);
  }
  return unpacked;
}

void DecodeBlock(const BlockQ4_K& block, float* dst) {
  const KScales scales = UnpackScales(block.scales);
  for (int i = 0; i < kNumSub; ++i) {
    const float step = F16ToF32(block.d) * scales.scale[i];
    const float offset = F16ToF32(block.dmin) * scales.min[i];
    for (int l = 0; l < kSub; ++l) {
      dst[kSub * i + l] = step * SubBlockNibble(block.qs, i, l) - offset;
    }
  }
}

void EncodeBlock(const float* src, BlockQ4_K& block) {
  PackAffine(FitAffineBlock(src, 15), block);
}

void DecodeBlock(const BlockQ5_K& block, float* dst) {
  const KScales scales = UnpackScales(block.scales);
  for (int i = 0; i < kNumSub; ++i) {
    const float step = F16ToF32(block.d) * scales.scale[i];
    const float offset = F16ToF32(block.dmin) * scales.min[i];
    for (int l = 0; l < kSub; ++l) {
      const int fifth = block.qh[l] >> i & 1;
      const int level = SubBlockNibble(block.qs, i, l) | fifth << 4;
      dst[kSub * i + l] = step * static_cast<float>(level) - offset;
    }
  }
}

void EncodeBlock(const float* src, BlockQ5_K& block) {
  const AffineBlock fit = FitAffineBlock(src, 31);
  PackAffine(fit, block);
  for (int l = 0; l < kSub; ++l) {
    int bits = 0;
    for (int i = 0; i < kNumSub; ++i) {
      bits |= (fit.levels[kSub * i + l] >> 4 & 1) << i;
    }
    block.qh[l] = static_cast<uint8_t>(bits);
  }
}

void DecodeBlock(const BlockQ6_K& block, float* dst) {
  uint8_t levels[kSuperBlock];
  UnpackLevels6(block, levels);
  const float d = F16ToF32(block.d);
  for (int i = 0; i < kNumSub6; ++i) {
    const float step = d * static_cast<float>(block.scales[i]);
    for (int e = kSub6 * i; e < kSub6 * (i + 1); ++e) {
      dst[e] = step * static_cast<float>(levels[e] - 32);
    }
  }
}

void EncodeBlock(const float* src, BlockQ6_K& block) {
  const SymmetricBlock fit = FitSymmetricBlock(src);
  block.d = fit.d;
  std::copy_n(fit.scales, kNumSub6, block.scales);
  PackLevels6(fit.levels, block);
}

}  // namespace thermocline
