// Products with many tokens for AVX2 with FMA and F16C.
#include "kernels/cpu/tile_avx2.h"
#include "kernels/cpu/tile_formats.h"
#include "kernels/cpu/tile_matmul.h"
#include "kernels/cpu/tile_narrow_dots.h"

namespace thermocline::kernels {
namespace {

struct Avx2Words : Avx2 {
  static constexpr Isa kIsa = Isa::kAvx2;

  static Ints AddInts(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
  static Bytes ShiftWords(Bytes v, int by) { return _mm256_slli_epi16(v, by); }
  static Bytes MulPairs(Bytes w, Bytes x) { return _mm256_maddubs_epi16(w, x); }
  static Bytes AddWords(Bytes a, Bytes b) { return _mm256_add_epi16(a, b); }
  static Ints AddPairs(Bytes v, int16_t by) {
    return _mm256_madd_epi16(v, _mm256_set1_epi16(by));
  }
  static void KeepInRegister(Bytes& v) { asm volatile("" : "+x"(v)); }
};

}  // namespace

void FillTileMatMulsAvx2(KernelTable& table) {
  FillTileBatch<NarrowDots<Avx2Words>>(table);
}

}  // namespace thermocline::kernels
