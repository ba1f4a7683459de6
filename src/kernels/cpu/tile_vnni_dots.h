// Dot products of bytes in tiles (tile_driver.h) for x86 with VNNI, whose
// instruction adds four products of an unsigned and a signed byte to a lane of
// 32 bits.
#ifndef THERMOCLINE_KERNELS_CPU_TILE_VNNI_DOTS_H_
#define THERMOCLINE_KERNELS_CPU_TILE_VNNI_DOTS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/tile_driver.h"

namespace thermocline::kernels {

// The Simd made of Base, which has the others of a Simd's operations and
//   SplatInts(x)           on 32 bits
//   AddDots(sums, w, x)    sums + the products of four bytes of each lane
template <class Base>
struct VnniDots : Base {
  using Base::kGroups;
  using Base::kTokens;
  using typename Base::Bytes;
  using typename Base::Ints;
  static constexpr bool kTopQuants = true;
  static constexpr int kZeroUnit = -128;
  static constexpr bool kZeroInWords = false;

  // kHalf 0 or 1 of a block whose format has two, or the whole block.
  template <class Format, size_t kHalf, size_t kCount>
  [[gnu::always_inline]] static inline void Dots(
      const Bytes (&q)[8][1][kGroups], const TileInput<kTokens>& x,
      Ints (&dots)[kCount][kGroups]) {
    constexpr size_t kSteps = 8 / Format::kHalves;
    for (size_t t = 0; t < kCount; ++t) {
      const int32_t zero =
          Format::kHalves == 2 ? x.half_zero[kHalf][t] : x.zero[t];
      const Ints start = Base::SplatInts(Format::kHasMin ? 0 : zero);
      for (size_t g = 0; g < kGroups; ++g) dots[t][g] = start;
    }
#pragma clang loop unroll(full)
    for (size_t i = kHalf * kSteps; i < (kHalf + 1) * kSteps; ++i) {
      for (size_t t = 0; t < kCount; ++t) {
        const Bytes quants = Base::SplatQuants(x.q[i][t]);
        for (size_t g = 0; g < kGroups; ++g) {
          dots[t][g] = Base::AddDots(dots[t][g], q[i][0][g], quants);
        }
      }
    }
  }
};

}  // namespace thermocline::kernels

#endif  // THERMOCLINE_KERNELS_CPU_TILE_VNNI_DOTS_H_
