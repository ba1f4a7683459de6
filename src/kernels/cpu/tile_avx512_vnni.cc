// Products with many tokens for AVX-512 with VNNI.
#include "kernels/cpu/tile_avx512.h"
#include "kernels/cpu/tile_formats.h"
#include "kernels/cpu/tile_matmul.h"

namespace thermocline::kernels {
namespace {

struct Vnni : Avx512 {
  static constexpr Isa kIsa = Isa::kAvx512Vnni;
  static constexpr size_t kGroups = 2;
  static constexpr size_t kTokens = 8;
  // The instruction multiplies unsigned quants with signed ones.
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
      const Ints start =
          Format::kHasMin ? _mm512_setzero_si512() : _mm512_set1_epi32(zero);
      for (size_t g = 0; g < kGroups; ++g) dots[t][g] = start;
    }
#pragma clang loop unroll(full)
    for (size_t i = kHalf * kSteps; i < (kHalf + 1) * kSteps; ++i) {
      for (size_t t = 0; t < kCount; ++t) {
        const Bytes quants = SplatQuants(x.q[i][t]);
        for (size_t g = 0; g < kGroups; ++g) {
          dots[t][g] = _mm512_dpbusd_epi32(dots[t][g], q[i][0][g], quants);
        }
      }
    }
  }
};

}  // namespace

void FillTileMatMulsAvx512Vnni(KernelTable& table) {
  FillTileBatch<Vnni>(12, table);
}

}  // namespace thermocline::kernels
