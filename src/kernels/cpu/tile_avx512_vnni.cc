// Products with many tokens for AVX-512 with VNNI.
#include "kernels/cpu/tile_avx512.h"
#include "kernels/cpu/tile_formats.h"
#include "kernels/cpu/tile_matmul.h"
#include "kernels/cpu/tile_vnni_dots.h"

namespace thermocline::kernels {
namespace {

struct Avx512Vnni : Avx512 {
  static constexpr Isa kIsa = Isa::kAvx512Vnni;
  static constexpr size_t kGroups = 2;
  static constexpr size_t kTokens = 8;

  static Ints AddDots(Ints sums, Bytes w, Bytes x) {
    return _mm512_dpbusd_epi32(sums, w, x);
  }
};

}  // namespace

void FillTileMatMulsAvx512Vnni(KernelTable& table) {
  FillTileBatch<VnniDots<Avx512Vnni>>(table);
}

}  // namespace thermocline::kernels
