// Q4_K, Q5_K, Q6_K: blocks of 256 whose sub-blocks have small integer scales.
#include <array>
#include <cmath>

#include "tensor/block_codec.h"
#include "tensor/codec.h"

namespace thermocline {
namespace {

constexpr int kNumSub = 8;       // sub-blocks of Q4_K and Q5_K
constexpr int kSub = 32;         // their elements
constexpr int kNumSub6 = 16;     // sub-blocks of Q6_K
constexpr int kSub6 = 16;        // their elements
constexpr float kMaxScale = 63;  // largest six-bit scale

// x ~ step * q - offset with step, offset >= 0.
struct Affine {
  float step = 0.0f;
  float offset = 0.0f;
};

// Where to look for the step: (max_q + first + i * delta) / (high - low) for
// i <= count is the reciprocal of the i-th try.
struct Search {
  int max_q;
  float first;
  float delta;
  int count;
};
constexpr Search kSearch4 = {15, -1.0f, 0.1f, 20};
constexpr Search kSearch5 = {31, -0.5f, 0.1f, 15};

// Large weights matter more in dot products than small ones, and none may be
// forgotten: |x| above a floor of the root mean square.
void ImportanceOf(const float* x, float weights[kSub]) {
  float sum_squares = 0.0f;
  for (int l = 0; l < kSub; ++l) sum_squares += x[l] * x[l];
  const float floor = std::sqrt(sum_squares / kSub);
  for (int l = 0; l < kSub; ++l) weights[l] = floor + std::fabs(x[l]);
}

// The weighted least-squares fit of x ~ step * q - offset for given q, offset
// held at >= 0. False when all q are equal and nothing can be fitted.
bool FitAffine(const float* x, const float* weights, const int* q,
               Affine& fit) {
  float sum_w = 0, sum_wq = 0, sum_wqq = 0, sum_wx = 0, sum_wxq = 0;
  for (int l = 0; l < kSub; ++l) {
    const float w = weights[l];
    const float level = static_cast<float>(q[l]);
    sum_w += w;
    sum_wq += w * level;
    sum_wqq += w * level * level;
    sum_wx += w * x[l];
    sum_wxq += w * x[l] * level;
  }
  const float determinant = sum_w * sum_wqq - sum_wq * sum_wq;
  if (!(determinant > 0.0f)) return false;
  fit.step = (sum_w * sum_wxq - sum_wx * sum_wq) / determinant;
  fit.offset = (sum_wq * sum_wxq - sum_wqq * sum_wx) / determinant;
  if (fit.offset < 0.0f) {
    fit.offset = 0.0f;
    fit.step = sum_wxq / sum_wqq;
  }
  return true;
}

float WeightedError(const float* x, const float* weights, const int* q,
                    const Affine& fit) {
  float error = 0.0f;
  for (int l = 0; l < kSub; ++l) {
    const float diff = fit.step * static_cast<float>(q[l]) - fit.offset - x[l];
    error += weights[l] * diff * diff;
  }
  return error;
}

// The best step and offset of one sub-block: every try rounds to a grid,
// refits the grid to what was rounded, and is judged by the weighted error.
Affine SearchAffine(const float* x, const Search& search) {
  float low = 0.0f;  // the offset cannot raise the grid above zero
  float high = x[0];
  for (int l = 0; l < kSub; ++l) {
    if (x[l] < low) low = x[l];
    if (x[l] > high) high = x[l];
  }
  Affine best = {0.0f, -low};
  const float max_q = static_cast<float>(search.max_q);
  if (!(high > low) || Reciprocal(high - low) == 0.0f) return best;

  float weights[kSub];
  ImportanceOf(x, weights);
  float best_error = INFINITY;
  for (int i = -1; i <= search.count; ++i) {  // -1: the plain grid
    const float shift =
        i < 0 ? 0.0f : search.first + search.delta * static_cast<float>(i);
    const float inverse = (max_q + shift) / (high - low);
    int q[kSub];
    for (int l = 0; l < kSub; ++l) {
      q[l] = RoundInto(inverse * (x[l] - low), 0.0f, max_q);
    }
    Affine fit;
    if (!FitAffine(x, weights, q, fit)) continue;
    const float error = WeightedError(x, weights, q, fit);
    if (error < best_error) {
      best_error = error;
      best = fit;
    }
  }
  return best;
}

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

// What Q4_K and Q5_K share: the header, and a level in [0, max_q] for each of
// the 256 elements under the scales as they are stored.
template <typename Block>
void EncodeHeaderAndLevels(const float* src, const Search& search, Block& block,
                           uint8_t levels[kSuperBlock]) {
  std::array<Affine, kNumSub> fits;
  float max_step = 0.0f;
  float max_offset = 0.0f;
  for (int i = 0; i < kNumSub; ++i) {
    fits[i] = SearchAffine(src + kSub * i, search);
    max_step = std::max(max_step, fits[i].step);
    max_offset = std::max(max_offset, fits[i].offset);
  }
  block.d = EncodeScale(max_step / kMaxScale);
  block.dmin = EncodeScale(max_offset / kMaxScale);

  KScales scales;
  const float to_scale = kMaxScale * Reciprocal(max_step);
  const float to_min = kMaxScale * Reciprocal(max_offset);
  for (int i = 0; i < kNumSub; ++i) {
    scales.scale[i] = static_cast<uint8_t>(
        RoundInto(to_scale * fits[i].step, 0.0f, kMaxScale));
    scales.min[i] = static_cast<uint8_t>(
        RoundInto(to_min * fits[i].offset, 0.0f, kMaxScale));
  }
  PackScales(scales, block.scales);

  for (int i = 0; i < kNumSub; ++i) {
    const float step = F16ToF32(block.d) * scales.scale[i];
    const float offset = F16ToF32(block.dmin) * scales.min[i];
    const float inverse = Reciprocal(step);
    for (int e = kSub * i; e < kSub * (i + 1); ++e) {
      levels[e] = static_cast<uint8_t>(RoundInto(
          (src[e] + offset) * inverse, 0.0f, static_cast<float>(search.max_q)));
    }
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

uint8_t SubBlockNibble(const uint8_t qs[128], int i, int l) {
  const uint8_t byte = qs[kSub * (i / 2) + l];
  return i % 2 == 0 ? byte & 15 : byte >> 4;
}

// The step, of either sign, that fits x ~ step * q best with q in [-32, 31],
// squared weights counting by their size.
float SearchStep6(const float* x) {
  const float peak = SignedPeak(x, kSub6);
  if (Reciprocal(peak) == 0.0f) return 0.0f;
  float best_step = 0.0f;
  float best_gain = -1.0f;  // error removed, up to a constant
  for (int i = -9; i <= 9; ++i) {
    const float inverse = -(32.0f + 0.1f * static_cast<float>(i)) / peak;
    float sum_xq = 0.0f;
    float sum_qq = 0.0f;
    for (int l = 0; l < kSub6; ++l) {
      const float w = x[l] * x[l];
      const float q =
          static_cast<float>(RoundInto(inverse * x[l], -32.0f, 31.0f));
      sum_xq += w * x[l] * q;
      sum_qq += w * q * q;
    }
    if (!(sum_qq > 0.0f)) continue;
    const float gain = sum_xq * sum_xq / sum_qq;
    if (gain > best_gain) {
      best_gain = gain;
      best_step = sum_xq / sum_qq;
    }
  }
  return best_step;
}

// Byte and shift at which element e of a Q6_K block keeps its parts.
struct Place6 {
  int low_byte;
  int low_shift;
  int high_byte;
  int high_shift;
};

Place6 PlaceOf6(int e) {
  const int half = e / 128;
  const int group = e % 128 / 32;
  const int lane = e % 32;
  return {64 * half + lane + 32 * (group & 1), group < 2 ? 0 : 4,
          32 * half + lane, 2 * group};
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
  uint8_t levels[kSuperBlock];
  EncodeHeaderAndLevels(src, kSearch4, block, levels);
  PackSubBlockNibbles(levels, block.qs);
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
  uint8_t levels[kSuperBlock];
  EncodeHeaderAndLevels(src, kSearch5, block, levels);
  PackSubBlockNibbles(levels, block.qs);
  for (int l = 0; l < kSub; ++l) {
    int bits = 0;
    for (int i = 0; i < kNumSub; ++i) {
      bits |= (levels[kSub * i + l] >> 4 & 1) << i;
    }
    block.qh[l] = static_cast<uint8_t>(bits);
  }
}

void DecodeBlock(const BlockQ6_K& block, float* dst) {
  const float d = F16ToF32(block.d);
  for (int e = 0; e < kSuperBlock; ++e) {
    const Place6 at = PlaceOf6(e);
    const int low = block.ql[at.low_byte] >> at.low_shift & 15;
    const int high = block.qh[at.high_byte] >> at.high_shift & 3;
    const float step = d * static_cast<float>(block.scales[e / kSub6]);
    dst[e] = step * static_cast<float>((low | high << 4) - 32);
  }
}

void EncodeBlock(const float* src, BlockQ6_K& block) {
  std::array<float, kNumSub6> steps;
  for (int i = 0; i < kNumSub6; ++i) steps[i] = SearchStep6(src + kSub6 * i);
  const float peak = SignedPeak(steps.data(), kNumSub6);
  block = {};
  const float to_scale = -128.0f * Reciprocal(peak);
  block.d = EncodeScale(peak / -128.0f);
  for (int i = 0; i < kNumSub6; ++i) {
    block.scales[i] =
        static_cast<int8_t>(RoundInto(to_scale * steps[i], -128.0f, 127.0f));
  }
  for (int e = 0; e < kSuperBlock; ++e) {
    const float step = F16ToF32(block.d) * block.scales[e / kSub6];
    const int q = 32 + RoundInto(src[e] * Reciprocal(step), -32.0f, 31.0f);
    const Place6 at = PlaceOf6(e);
    block.ql[at.low_byte] |= static_cast<uint8_t>((q & 15) << at.low_shift);
    block.qh[at.high_byte] |= static_cast<uint8_t>((q >> 4) << at.high_shift);
  }
}

}  // namespace thermocline
