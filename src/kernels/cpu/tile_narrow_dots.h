// Dot products of bytes in tiles (tile_driver.h) for x86 without VNNI, where
// products of an unsigned and a signed byte are added by pairs into 16 bits,
// with saturation.
//
// A pair does not saturate: 2 * 63 * 127 is below 2^15. Sums of pairs go on in
// words of 16 bits over all of a block, or half of one of six bits. Larger ones
// than those of 16 * 15 * 127 wrap around on the way, but begin with what comes
// of the zero point, and 16 * 16 * 127 and 8 * 32 * 127 fit in the end.
#ifndef THERMOCLINE_KERNELS_CPU_TILE_NARROW_DOTS_H_
#define THERMOCLINE_KERNELS_CPU_TILE_NARROW_DOTS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/tile_driver.h"

namespace thermocline::kernels {

// The Simd made of Base, which has the others of a Simd's operations and
//   MulPairs(w, x), AddWords   as above
//   AddPairs(v, by)            sums of pairs of 16 bits, times `by`
//   SplatInts, AddInts         on 32 bits; ShiftWords on 16
//   KeepInRegister(v)          nothing, in a register and in this order
template <class Base>
struct NarrowDots : Base {
  using Base::kGroups;
  using typename Base::Bytes;
  using typename Base::Ints;
  static constexpr size_t kTokens = 4;
  static constexpr bool kTopQuants = false;
  static constexpr int kZeroUnit = -8;  // the zero point of four bits
  static constexpr bool kZeroInWords = true;

  template <class Format, size_t kHalf, size_t kPlanes, size_t kCount>
  [[gnu::always_inline]] static inline void Dots(
      const Bytes (&q)[8][kPlanes][kGroups], const TileInput<kTokens>& x,
      Ints (&dots)[kCount][kGroups]) {
    // As many as there are registers for.
    constexpr size_t kAtOnce = kPlanes == 2 ? 2 : kCount;
#pragma clang loop unroll(full)
    for (size_t t = 0; t < kCount; t += kAtOnce) {
      Bytes sums[kAtOnce][kPlanes][kGroups];
      Start<Format, kHalf>(x, t, sums);
      AddProducts<kHalf * 8 / Format::kHalves, 8 / Format::kHalves>(q, x, t,
                                                                    sums);
      for (size_t u = 0; u < kAtOnce; ++u) {
        for (size_t g = 0; g < kGroups; ++g) {
          Ints& dot = dots[t + u][g];
          dot = Base::AddPairs(sums[u][0][g], 1);
          if constexpr (kPlanes == 2) {
            dot = Base::AddInts(dot, Base::AddPairs(sums[u][1][g], 16));
            Base::KeepInRegister(dot);
          }
        }
      }
    }
  }

 private:
  // What the sums of words begin with: what comes of the zero point, which is
  // the upper plane's where there are two.
  template <class Format, size_t kHalf, size_t kPlanes, size_t kCount>
  [[gnu::always_inline]] static inline void Start(
      const TileInput<kTokens>& x, size_t first,
      Bytes (&sums)[kCount][kPlanes][kGroups]) {
    constexpr int kBits = kPlanes == 2 ? 4 : Format::kBits;
#pragma clang loop unroll(full)
    for (size_t t = 0; t < kCount; ++t) {
      Bytes start = Base::SplatInts(0);
      for (Bytes& sum : sums[t][0]) sum = start;
      if constexpr (Format::kHasZeroPoint) {
        const int32_t* zero =
            Format::kHalves == 2 ? x.half_zero[kHalf] : x.zero;
        start = Base::ShiftWords(Base::SplatInts(zero[first + t]), kBits - 4);
      }
      for (Bytes& sum : sums[t][kPlanes - 1]) sum = start;
    }
  }

  // Adds the products of quants [kBegin, kBegin + kSteps).
  template <size_t kBegin, size_t kSteps, size_t kPlanes, size_t kCount>
  [[gnu::always_inline]] static inline void AddProducts(
      const Bytes (&q)[8][kPlanes][kGroups], const TileInput<kTokens>& x,
      size_t first, Bytes (&sums)[kCount][kPlanes][kGroups]) {
#pragma clang loop unroll(full)
    for (size_t i = kBegin; i < kBegin + kSteps; ++i) {
      Bytes w[kPlanes][kGroups];
      __builtin_memcpy(w, q[i], sizeof(w));
      KeepAll(w);
#pragma clang loop unroll(full)
      for (size_t t = 0; t < kCount; ++t) {
        const Bytes quants = Base::SplatQuants(x.q[i][first + t]);
        Bytes products[kPlanes][kGroups];
        for (size_t p = 0; p < kPlanes; ++p) {
          for (size_t g = 0; g < kGroups; ++g) {
            products[p][g] = Base::MulPairs(w[p][g], quants);
          }
        }
        KeepAll(products);
        for (size_t p = 0; p < kPlanes; ++p) {
          for (size_t g = 0; g < kGroups; ++g) {
            sums[t][p][g] = Base::AddWords(sums[t][p][g], products[p][g]);
          }
        }
      }
      for (auto& of_token : sums) KeepAll(of_token);
    }
  }

  // Makes the compiler take steps one by one. Left to itself it adds in another
  // order, one token after the other, for which registers do not suffice.
  template <size_t kPlanes>
  [[gnu::always_inline]] static inline void KeepAll(
      Bytes (&vectors)[kPlanes][kGroups]) {
    for (auto& of_plane : vectors) {
      for (Bytes& v : of_plane) Base::KeepInRegister(v);
    }
  }
};

}  // namespace thermocline::kernels

#endif  // THERMOCLINE_KERNELS_CPU_TILE_NARROW_DOTS_H_
