// Products with many tokens for Armv8.2 with the dot product instructions.
#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/tile_formats.h"
#include "kernels/cpu/tile_matmul.h"

namespace thermocline::kernels {
namespace {

struct NeonDotprod {
  using Bytes = uint8x16_t;
  using Ints = int32x4_t;
  using Floats = float32x4_t;
  static constexpr Isa kIsa = Isa::kNeonDotprod;
  static constexpr size_t kLanes = 4;
  static constexpr size_t kGroups = 2;
  static constexpr bool kFewRegisters = false;
  static constexpr size_t kTokens = 4;
  // Signed quants, so no zero point is left.
  static constexpr bool kTopQuants = true;
  static constexpr int kZeroUnit = 0;
  static constexpr bool kZeroInWords = false;

  static Floats Zero() { return vdupq_n_f32(0); }
  static Floats Load(const float* p) { return vld1q_f32(p); }
  static void Store(Floats v, float* p) { vst1q_f32(p, v); }
  static Floats Splat(float x) { return vdupq_n_f32(x); }
  static Floats Add(Floats a, Floats b) { return vaddq_f32(a, b); }
  static Floats Mul(Floats a, Floats b) { return vmulq_f32(a, b); }
  static Floats MulAdd(Floats a, Floats b, Floats c) {
    return vfmaq_f32(c, a, b);
  }
  static Floats ToFloats(Ints v) { return vcvtq_f32_s32(v); }

  static void LoadColumns(const std::byte* const* rows, size_t offset,
                          Bytes out[4]) {
    uint32x4_t row[4];
    for (size_t i = 0; i < 4; ++i) {
      row[i] = vreinterpretq_u32_u8(
          vld1q_u8(reinterpret_cast<const uint8_t*>(rows[i] + offset)));
    }
    const uint64x2_t even01 = vreinterpretq_u64_u32(vtrn1q_u32(row[0], row[1]));
    const uint64x2_t even23 = vreinterpretq_u64_u32(vtrn1q_u32(row[2], row[3]));
    const uint64x2_t odd01 = vreinterpretq_u64_u32(vtrn2q_u32(row[0], row[1]));
    const uint64x2_t odd23 = vreinterpretq_u64_u32(vtrn2q_u32(row[2], row[3]));
    out[0] = vreinterpretq_u8_u64(vtrn1q_u64(even01, even23));
    out[1] = vreinterpretq_u8_u64(vtrn1q_u64(odd01, odd23));
    out[2] = vreinterpretq_u8_u64(vtrn2q_u64(even01, even23));
    out[3] = vreinterpretq_u8_u64(vtrn2q_u64(odd01, odd23));
  }
  static Bytes LoadHeads(const uint32_t* words) {
    return vreinterpretq_u8_u32(vld1q_u32(words));
  }

  static Bytes Bits(Bytes v, int shift, int mask) {
    return vandq_u8(vshlq_u8(v, vdupq_n_s8(static_cast<int8_t>(shift))),
                    vdupq_n_u8(static_cast<uint8_t>(mask)));
  }
  static Bytes Or(Bytes a, Bytes b) { return vorrq_u8(a, b); }
  static Bytes FlipTop(Bytes v) { return veorq_u8(v, vdupq_n_u8(0x80)); }
  static Bytes Centre(Bytes v) { return FlipTop(v); }
  static Bytes SpreadBits(Bytes v, size_t i) {
    // In each lane byte i / 2, four times.
    const uint8x16_t order = vreinterpretq_u8_u32(
        vmlaq_u32(vdupq_n_u32(0x01010101 * static_cast<uint32_t>(i / 2)),
                  vcombine_u32(vcreate_u32(uint64_t{4} << 32),
                               vcreate_u32(uint64_t{12} << 32 | 8)),
                  vdupq_n_u32(0x01010101)));
    const uint8x16_t bit =
        vreinterpretq_u8_u32(vdupq_n_u32(i % 2 == 0 ? 0x08040201 : 0x80402010));
    return vandq_u8(vtstq_u8(vqtbl1q_u8(v, order), bit), vdupq_n_u8(0x80));
  }
  static Floats Unsigned(Bytes v, int i) {
    const uint32x4_t words =
        vshlq_u32(vreinterpretq_u32_u8(v), vdupq_n_s32(-8 * i));
    return vcvtq_f32_u32(vandq_u32(words, vdupq_n_u32(0xFF)));
  }
  static Floats Signed(Bytes v, int i) {
    const int32x4_t words =
        vshlq_s32(vreinterpretq_s32_u8(v), vdupq_n_s32(24 - 8 * i));
    return vcvtq_f32_s32(vshrq_n_s32(words, 24));
  }
  static Floats LowHalf(Bytes v) {
    return vcvt_f32_f16(
        vreinterpret_f16_u16(vmovn_u32(vreinterpretq_u32_u8(v))));
  }
  static Floats HighHalf(Bytes v) {
    return vcvt_f32_f16(
        vreinterpret_f16_u16(vshrn_n_u32(vreinterpretq_u32_u8(v), 16)));
  }

  template <class Format, size_t kHalf, size_t kCount>
  [[gnu::always_inline]] static inline void Dots(
      const Bytes (&q)[8][1][kGroups], const TileInput<kTokens>& x,
      Ints (&dots)[kCount][kGroups]) {
    constexpr size_t kSteps = 8 / Format::kHalves;
    for (auto& of_token : dots) {
      for (Ints& dot : of_token) dot = vdupq_n_s32(0);
    }
#pragma clang loop unroll(full)
    for (size_t i = kHalf * kSteps; i < (kHalf + 1) * kSteps; ++i) {
      const int8x16_t quants = vld1q_s8(&x.q[i][0][0]);  // of four tokens
      for (size_t g = 0; g < kGroups; ++g) {
        const int8x16_t w = vreinterpretq_s8_u8(q[i][0][g]);
        dots[0][g] = vdotq_laneq_s32(dots[0][g], w, quants, 0);
        dots[1][g] = vdotq_laneq_s32(dots[1][g], w, quants, 1);
        if constexpr (kCount > 2) {
          dots[2][g] = vdotq_laneq_s32(dots[2][g], w, quants, 2);
          dots[3][g] = vdotq_laneq_s32(dots[3][g], w, quants, 3);
        }
      }
    }
  }
};

}  // namespace

void FillTileMatMulsNeonDotprod(KernelTable& table) {
  FillTileBatch<NeonDotprod>(table);
}

}  // namespace thermocline::kernels
