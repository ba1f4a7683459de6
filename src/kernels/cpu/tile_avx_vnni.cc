// Products with many tokens for AVX2 with AVX-VNNI.
#include "kernels/cpu/tile_avx2.h"
#include "kernels/cpu/tile_formats.h"
#include "kernels/cpu/tile_matmul.h"
#include "kernels/cpu/tile_vnni_dots.h"

namespace thermocline::kernels {
namespace {

struct AvxVnni : Avx2 {
  static constexpr Isa kIsa = Isa::kAvxVnni;
  static constexpr size_t kTokens = 4;

  static Ints AddDots(Ints sums, Bytes w, Bytes x) {
    return _mm256_dpbusd_avx_epi32(sums, w, x);
  }
};

}  // namespace

void FillTileMatMulsAvxVnni(KernelTable& table) {
  FillTileBatch<VnniDots<AvxVnni>>(table);
}

}  // namespace thermocline::kernels
