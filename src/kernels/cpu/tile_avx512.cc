// Products with many tokens for AVX-512 without VNNI: F, BW, DQ, VL, CD.
#include "kernels/cpu/tile_avx512.h"
#include "kernels/cpu/tile_formats.h"
#include "kernels/cpu/tile_matmul.h"
#include "kernels/cpu/tile_narrow_dots.h"

namespace thermocline::kernels {
namespace {

struct Avx512Words : Avx512 {
  static constexpr Isa kIsa = Isa::kAvx512;
  static constexpr size_t kGroups = 2;

  static Ints AddInts(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
  static Bytes ShiftWords(Bytes v, int by) {
    return _mm512_slli_epi16(v, static_cast<unsigned>(by));
  }
  static Bytes MulPairs(Bytes w, Bytes x) { return _mm512_maddubs_epi16(w, x); }
  static Bytes AddWords(Bytes a, Bytes b) { return _mm512_add_epi16(a, b); }
  static Ints AddPairs(Bytes v, int16_t by) {
    return _mm512_madd_epi16(v, _mm512_set1_epi16(by));
  }
  static void KeepInRegister(Bytes& v) { asm volatile("" : "+v"(v)); }
};

}  // namespace

void FillTileMatMulsAvx512(KernelTable& table) {
  FillTileBatch<NarrowDots<Avx512Words>>(table);
}

}  // namespace thermocline::kernels
