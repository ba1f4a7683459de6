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
  // Weights in memory, two threads: with 12 tokens 0.99 (Q4_0), 1.07 (Q8_0),
  // 1.23 (Q4_K) and 0.9 times (Q6_K) as fast as matmul(), with 16 all are
  // faster; with 8 only Q4_K breaks even.
  FillTileBatch<VnniDots<AvxVnni>>(12, table);
}

}  // namespace thermocline::kernels
