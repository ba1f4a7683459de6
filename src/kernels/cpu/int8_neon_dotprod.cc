// Int8 matrix products for Armv8.2 with the dot product instructions.
//
// Work goes in parts of 128 quants, four blocks of 32 as eight registers of
// signed bytes. Pairwise additions bring the dot products of the four blocks
// into the four lanes of one register, in the order in which scales and
// activation sums lie in memory.
#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/int8_driver.h"
#include "kernels/cpu/int8_matmul.h"
#include "kernels/kernels.h"
#include "tensor/blocks.h"

namespace thermocline::kernels {
namespace {

inline uint32_t LoadU32(const std::byte* p) {
  uint32_t value;
  __builtin_memcpy(&value, p, sizeof(value));
  return value;
}

inline uint8x16_t LoadBytes(const std::byte* p) {
  return vld1q_u8(reinterpret_cast<const uint8_t*>(p));
}

inline uint8x16_t LowNibbles(uint8x16_t v) {
  return vandq_u8(v, vdupq_n_u8(0x0F));
}

// The half-precision number at p, four times.
inline float32x4_t HalfAt(const std::byte* p) {
  uint16_t half;
  __builtin_memcpy(&half, p, sizeof(half));
  return vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(half)));
}

// The quants minus kZero.
template <int kZero>
inline int8x16_t Signed(uint8x16_t quants) {
  const int8x16_t q = vreinterpretq_s8_u8(quants);
  if constexpr (kZero == 0) return q;
  return vsubq_s8(q, vdupq_n_s8(kZero));
}

// a, b, c, d with their lanes added, in one lane each.
inline int32x4_t AddLanes(int32x4_t a, int32x4_t b, int32x4_t c, int32x4_t d) {
  return vpaddq_s32(vpaddq_s32(a, b), vpaddq_s32(c, d));
}

// Unpacked weights. `min` is what is added per activation; unused without one.
template <int kParts>
struct StepWeights {
  int8x16_t q[kParts][8];
  float32x4_t scale[kParts];
  float32x4_t min[kParts];
};

// Prepared activations; `sum` has a sum for each block.
template <int kParts>
struct StepActivations {
  int8x16_t q[kParts][8];
  float32x4_t d[kParts];
  int32x4_t sum[kParts];
};

// The dot products of four blocks of 32.
inline int32x4_t DotBlocks(const int8x16_t w[8], const int8x16_t x[8]) {
  int32x4_t dot[4];
  for (int b = 0; b < 4; ++b) {
    dot[b] = vdotq_s32(vdupq_n_s32(0), w[2 * b], x[2 * b]);
    dot[b] = vdotq_s32(dot[b], w[2 * b + 1], x[2 * b + 1]);
  }
  return AddLanes(dot[0], dot[1], dot[2], dot[3]);
}

// The arithmetic of a step after its integer dot products.
// kParts: 128s of quants in a step.
template <int kParts, bool kHasMin>
struct StepBase {
  using Weights = StepWeights<kParts>;
  using Input = StepActivations<kParts>;
  using Acc = float32x4_t;

  static Acc Zero() { return vdupq_n_f32(0); }

  static Input Prepare(const StepInput& x) {
    Input in;
    for (int part = 0; part < kParts; ++part) {
      for (int i = 0; i < 8; ++i) {
        in.q[part][i] = vld1q_s8(x.q + 128 * part + 16 * i);
      }
      in.d[part] = vld1q_f32(x.d + 4 * part);
      in.sum[part] = vpaddlq_s16(vld1q_s16(x.sum + 8 * part));
    }
    return in;
  }

  static Acc AddPart(const Weights& w, int part, int32x4_t dot, const Input& x,
                     Acc acc) {
    const float32x4_t d = x.d[part];
    acc = vfmaq_f32(acc, vcvtq_f32_s32(dot), vmulq_f32(w.scale[part], d));
    if constexpr (kHasMin) {
      const float32x4_t sum = vcvtq_f32_s32(x.sum[part]);
      acc = vfmaq_f32(acc, w.min[part], vmulq_f32(d, sum));
    }
    return acc;
  }

  static Acc Step(const Weights& w, const Input& x, Acc acc) {
    for (int part = 0; part < kParts; ++part) {
      acc = AddPart(w, part, DotBlocks(w.q[part], x.q[part]), x, acc);
    }
    return acc;
  }

  static float Reduce(Acc acc) { return vaddvq_f32(acc); }
};

// Formats with blocks of 32; a step has four.
template <class Block>
struct Block32 {
  static constexpr size_t kBlockBytes = sizeof(Block);
  static constexpr size_t kBlockElems = kBlock;
  static constexpr size_t kStepBlocks = 4;

  // The first four bytes of each block: d, then m of the formats that have it.
  static uint32x4_t Heads(const std::byte* blocks) {
    uint32_t heads[4];
    for (size_t b = 0; b < 4; ++b) {
      heads[b] = LoadU32(blocks + b * sizeof(Block));
    }
    return vld1q_u32(heads);
  }

  // The half-precision numbers in the low, or high, halves of the lanes.
  static float32x4_t LowHalves(uint32x4_t heads) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(heads)));
  }
  static float32x4_t HighHalves(uint32x4_t heads) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vshrn_n_u32(heads, 16)));
  }
};

// q[0] gets the low nibbles of a block of 32 minus kZero, q[1] the high ones.
template <class Block, int kZero>
inline void UnpackNibbles(const std::byte* block, int8x16_t q[2]) {
  const uint8x16_t bytes = LoadBytes(block + offsetof(Block, qs));
  q[0] = Signed<kZero>(LowNibbles(bytes));
  q[1] = Signed<kZero>(vshrq_n_u8(bytes, 4));
}

// 16 in each byte whose bit is set.
inline uint8x16_t SixteenWhere(uint32_t bits) {
  const uint8x16_t spread =
      vcombine_u8(vdup_n_u8(static_cast<uint8_t>(bits)),
                  vdup_n_u8(static_cast<uint8_t>(bits >> 8)));
  const uint8x16_t bit = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
  return vandq_u8(vtstq_u8(spread, bit), vdupq_n_u8(16));
}

// As UnpackNibbles, with the fifth bits.
template <class Block, int kZero>
inline void UnpackFiveBits(const std::byte* block, int8x16_t q[2]) {
  const uint8x16_t bytes = LoadBytes(block + offsetof(Block, qs));
  const uint32_t qh = LoadU32(block + offsetof(Block, qh));
  q[0] = Signed<kZero>(vorrq_u8(LowNibbles(bytes), SixteenWhere(qh)));
  q[1] = Signed<kZero>(vorrq_u8(vshrq_n_u8(bytes, 4), SixteenWhere(qh >> 16)));
}

struct Q8_0 : Block32<BlockQ8_0>, StepBase<1, false> {
  static Weights Unpack(const std::byte* blocks) {
    Weights w;
    for (int b = 0; b < 4; ++b) {
      const std::byte* qs = blocks + b * kBlockBytes + offsetof(BlockQ8_0, qs);
      w.q[0][2 * b] = vreinterpretq_s8_u8(LoadBytes(qs));
      w.q[0][2 * b + 1] = vreinterpretq_s8_u8(LoadBytes(qs + 16));
    }
    w.scale[0] = LowHalves(Heads(blocks));
    return w;
  }
};

struct Q4_0 : Block32<BlockQ4_0>, StepBase<1, false> {
  static Weights Unpack(const std::byte* blocks) {
    Weights w;
    for (int b = 0; b < 4; ++b) {
      UnpackNibbles<BlockQ4_0, 8>(blocks + b * kBlockBytes, w.q[0] + 2 * b);
    }
    w.scale[0] = LowHalves(Heads(blocks));
    return w;
  }
};

struct Q4_1 : Block32<BlockQ4_1>, StepBase<1, true> {
  static Weights Unpack(const std::byte* blocks) {
    Weights w;
    for (int b = 0; b < 4; ++b) {
      UnpackNibbles<BlockQ4_1, 0>(blocks + b * kBlockBytes, w.q[0] + 2 * b);
    }
    const uint32x4_t heads = Heads(blocks);
    w.scale[0] = LowHalves(heads);
    w.min[0] = HighHalves(heads);
    return w;
  }
};

struct Q5_0 : Block32<BlockQ5_0>, StepBase<1, false> {
  static Weights Unpack(const std::byte* blocks) {
    Weights w;
    for (int b = 0; b < 4; ++b) {
      UnpackFiveBits<BlockQ5_0, 16>(blocks + b * kBlockBytes, w.q[0] + 2 * b);
    }
    w.scale[0] = LowHalves(Heads(blocks));
    return w;
  }
};

struct Q5_1 : Block32<BlockQ5_1>, StepBase<1, true> {
  static Weights Unpack(const std::byte* blocks) {
    Weights w;
    for (int b = 0; b < 4; ++b) {
      UnpackFiveBits<BlockQ5_1, 0>(blocks + b * kBlockBytes, w.q[0] + 2 * b);
    }
    const uint32x4_t heads = Heads(blocks);
    w.scale[0] = LowHalves(heads);
    w.min[0] = HighHalves(heads);
    return w;
  }
};

// Formats with blocks of 256; a step is one block, two parts.
template <class Block>
struct Block256 {
  static constexpr size_t kBlockBytes = sizeof(Block);
  static constexpr size_t kBlockElems = kSuperBlock;
  static constexpr size_t kStepBlocks = 1;
};

// out[0] and out[1] get the four bytes of `low` and `high` times `factor`.
inline void ScaleBytes(uint32_t low, uint32_t high, float32x4_t factor,
                       float32x4_t out[2]) {
  const uint16x8_t bytes =
      vmovl_u8(vcreate_u8(low | static_cast<uint64_t>(high) << 32));
  out[0] = vmulq_f32(vcvtq_f32_u32(vmovl_u16(vget_low_u16(bytes))), factor);
  out[1] = vmulq_f32(vcvtq_f32_u32(vmovl_u16(vget_high_u16(bytes))), factor);
}

// Scales and minima of Q4_K and Q5_K, whose blocks begin with d, dmin and the
// twelve bytes that pack eight scales and eight minima of six bits: those of
// the first four sub-blocks in the low six bits of bytes 0-3 and 4-7; the low
// four bits of the others in bytes 8-11, the upper two on top of the first.
inline void UnpackScales(const std::byte* block, StepWeights<2>& w) {
  const uint32_t a = LoadU32(block + 4);
  const uint32_t b = LoadU32(block + 8);
  const uint32_t c = LoadU32(block + 12);
  ScaleBytes(a & 0x3F3F3F3F, (c & 0x0F0F0F0F) | (a >> 2 & 0x30303030),
             HalfAt(block), w.scale);
  ScaleBytes(b & 0x3F3F3F3F, (c >> 4 & 0x0F0F0F0F) | (b >> 2 & 0x30303030),
             vnegq_f32(HalfAt(block + 2)), w.min);
}

struct Q4_K : Block256<BlockQ4_K>, StepBase<2, true> {
  static Weights Unpack(const std::byte* block) {
    Weights w;
    for (int i = 0; i < 8; ++i) {
      const uint8x16_t bytes =
          LoadBytes(block + offsetof(BlockQ4_K, qs) + 16 * i);
      int8x16_t* q = w.q[i / 4] + i / 2 % 2 * 4 + i % 2;
      q[0] = vreinterpretq_s8_u8(LowNibbles(bytes));
      q[2] = vreinterpretq_s8_u8(vshrq_n_u8(bytes, 4));
    }
    UnpackScales(block, w);
    return w;
  }
};

struct Q5_K : Block256<BlockQ5_K>, StepBase<2, true> {
  // Bit 0 of each byte of `bits` becomes bit 4 on top of the nibble.
  static int8x16_t AddFifthBit(uint8x16_t nibbles, uint8x16_t bits) {
    return vreinterpretq_s8_u8(
        vorrq_u8(nibbles, vandq_u8(vshlq_n_u8(bits, 4), vdupq_n_u8(16))));
  }

  static Weights Unpack(const std::byte* block) {
    Weights w;
    const std::byte* qh_bytes = block + offsetof(BlockQ5_K, qh);
    uint8x16_t qh[2] = {LoadBytes(qh_bytes), LoadBytes(qh_bytes + 16)};
    for (int i = 0; i < 8; ++i) {
      const uint8x16_t bytes =
          LoadBytes(block + offsetof(BlockQ5_K, qs) + 16 * i);
      int8x16_t* q = w.q[i / 4] + i / 2 % 2 * 4 + i % 2;
      q[0] = AddFifthBit(LowNibbles(bytes), qh[i % 2]);
      q[2] = AddFifthBit(vshrq_n_u8(bytes, 4), vshrq_n_u8(qh[i % 2], 1));
      qh[i % 2] = vshrq_n_u8(qh[i % 2], 2);
    }
    UnpackScales(block, w);
    return w;
  }
};

// Its sub-blocks of 16 have scales of eight bits, applied to the integers:
// a pair of them stays below 2^24, exact as a float.
struct Q6_K : Block256<BlockQ6_K>, StepBase<2, false> {
  struct Weights : StepWeights<2> {
    int32x4_t sub_scale[2][2];
  };

  // Low four bits from `ql`, bits 4 and 5 from `qh`, whose others are ignored.
  static int8x16_t Join(uint8x16_t ql, uint8x16_t qh) {
    return Signed<32>(vorrq_u8(ql, vandq_u8(qh, vdupq_n_u8(0x30))));
  }

  static Weights Unpack(const std::byte* block) {
    Weights w;
    for (int i = 0; i < 4; ++i) {
      const int half = i / 2;
      const std::byte* ql_bytes =
          block + offsetof(BlockQ6_K, ql) + 64 * half + 16 * (i % 2);
      const uint8x16_t ql0 = LoadBytes(ql_bytes);
      const uint8x16_t ql1 = LoadBytes(ql_bytes + 32);
      const uint8x16_t qh = LoadBytes(block + offsetof(BlockQ6_K, qh) + 16 * i);
      int8x16_t* q = w.q[half] + i % 2;
      q[0] = Join(LowNibbles(ql0), vshlq_n_u8(qh, 4));
      q[2] = Join(LowNibbles(ql1), vshlq_n_u8(qh, 2));
      q[4] = Join(vshrq_n_u8(ql0, 4), qh);
      q[6] = Join(vshrq_n_u8(ql1, 4), vshrq_n_u8(qh, 2));
    }
    const int8x16_t scales =
        vreinterpretq_s8_u8(LoadBytes(block + offsetof(BlockQ6_K, scales)));
    const int16x8_t scales16[2] = {vmovl_s8(vget_low_s8(scales)),
                                   vmovl_s8(vget_high_s8(scales))};
    for (int half = 0; half < 2; ++half) {
      w.sub_scale[half][0] = vmovl_s16(vget_low_s16(scales16[half]));
      w.sub_scale[half][1] = vmovl_s16(vget_high_s16(scales16[half]));
      w.scale[half] = HalfAt(block + offsetof(BlockQ6_K, d));
    }
    return w;
  }

  static Acc Step(const Weights& w, const Input& x, Acc acc) {
    for (int part = 0; part < 2; ++part) {
      int32x4_t dot[8];
      for (int i = 0; i < 8; ++i) {
        dot[i] = vdotq_s32(vdupq_n_s32(0), w.q[part][i], x.q[part][i]);
      }
      const int32x4_t first = vmulq_s32(
          AddLanes(dot[0], dot[1], dot[2], dot[3]), w.sub_scale[part][0]);
      const int32x4_t second = vmulq_s32(
          AddLanes(dot[4], dot[5], dot[6], dot[7]), w.sub_scale[part][1]);
      acc = AddPart(w, part, vpaddq_s32(first, second), x, acc);
    }
    return acc;
  }
};

}  // namespace

void FillInt8MatMulsNeonDotprod(KernelTable& table) {
  Int8MatMul<Q8_0>::Fill(DType::kQ8_0, table);
  Int8MatMul<Q4_0>::Fill(DType::kQ4_0, table);
  Int8MatMul<Q4_1>::Fill(DType::kQ4_1, table);
  Int8MatMul<Q5_0>::Fill(DType::kQ5_0, table);
  Int8MatMul<Q5_1>::Fill(DType::kQ5_1, table);
  Int8MatMul<Q4_K>::Fill(DType::kQ4_K, table);
  Int8MatMul<Q5_K>::Fill(DType::kQ5_K, table);
  Int8MatMul<Q6_K>::Fill(DType::kQ6_K, table);
}

}  // namespace thermocline::kernels
