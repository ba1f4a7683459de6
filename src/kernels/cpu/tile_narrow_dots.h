// Dot products of bytes in tiles (tile_driver.h) for x86 without VNNI, where
// products of an unsigned and a signed byte are added by pairs into 16 bits,
// with saturation. Small unsigned quants leave room for several additions
// before their sums must go on in 32 bits.
#ifndef THERMOCLINE_KERNELS_CPU_TILE_NARROW_DOTS_H_
#define THERMOCLINE_KERNELS_CPU_TILE_NARROW_DOTS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/tile_driver.h"

namespace thermocline::kernels {

// The Simd made of Base, which has the others of a Simd's operations and
//   MulPairs(w, x), AddWords, AddPairs   as above; sums of pairs of 16 bits
//   SplatInts, AddInts, ShiftInts        on 32 bits
template <class Base>
struct NarrowDots : Base {
  using Base::kGroups;
  using typename Base::Bytes;
  using typename Base::Ints;
  static constexpr size_t kTokens = 4;
  static constexpr bool kTopQuants = false;
  static constexpr int kZeroUnit = -8;  // the zero point of four bits

  template <class Format, size_t kHalf, size_t kPlanes, size_t kCount>
  [[gnu::always_inline]] static inline void Dots(
      const Bytes (&q)[8][kPlanes][kGroups], const TileInput<kTokens>& x,
      Ints (&dots)[kCount][kGroups]) {
    constexpr size_t kSteps = 8 / Format::kHalves;
    for (size_t t = 0; t < kCount; ++t) {
      Ints start = Base::SplatInts(0);
      if constexpr (!Format::kHasMin) {
        start = Base::SplatInts(Format::kHalves == 2 ? x.half_zero[kHalf][t]
                                                     : x.zero[t]);
        // Two planes: the upper one's.
        constexpr int kBits = kPlanes == 2 ? 4 : Format::kBits;
        start = Base::ShiftInts(start, kBits - 4);
      }
      for (size_t g = 0; g < kGroups; ++g) dots[t][g] = start;
    }
    if constexpr (kPlanes == 2) {
      AddDots<4, 0, 8, 1>(q, x, dots);
      for (auto& of_token : dots) {
        for (Ints& dot : of_token) dot = Base::ShiftInts(dot, 4);
      }
      AddDots<4, 0, 8, 0>(q, x, dots);
    } else {
      AddDots<Format::kBits, kHalf * kSteps, (kHalf + 1) * kSteps, 0>(q, x,
                                                                      dots);
    }
  }

 private:
  // Adds the products of quants [kBegin, kEnd) of a plane.
  template <int kBits, size_t kBegin, size_t kEnd, size_t kPlane,
            size_t kPlanes, size_t kCount>
  [[gnu::always_inline]] static inline void AddDots(
      const Bytes (&q)[8][kPlanes][kGroups], const TileInput<kTokens>& x,
      Ints (&dots)[kCount][kGroups]) {
    // Sums of pairs that fit in 16 bits: 16 * 15 * 127, 8 * 31 * 127 and
    // 4 * 63 * 127 are below 2^15.
    constexpr size_t kRun = kBits == 4 ? 8 : kBits == 5 ? 4 : 2;
#pragma clang loop unroll(full)
    for (size_t begin = kBegin; begin < kEnd; begin += kRun) {
      for (size_t t = 0; t < kCount; ++t) {
        Bytes sums[kGroups];
#pragma clang loop unroll(full)
        for (size_t i = begin; i < begin + kRun; ++i) {
          const Bytes quants = Base::SplatQuants(x.q[i][t]);
          for (size_t g = 0; g < kGroups; ++g) {
            const Bytes pairs = Base::MulPairs(q[i][kPlane][g], quants);
            sums[g] = i == begin ? pairs : Base::AddWords(sums[g], pairs);
          }
        }
        for (size_t g = 0; g < kGroups; ++g) {
          dots[t][g] = Base::AddInts(dots[t][g], Base::AddPairs(sums[g]));
        }
      }
    }
  }
};

}  // namespace thermocline::kernels

#endif  // THERMOCLINE_KERNELS_CPU_TILE_NARROW_DOTS_H_
