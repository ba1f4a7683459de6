// Int8 matrix products for AVX2 with AVX-VNNI: the results of int8_avx2.cc, bit
// by bit. The formats with blocks of 256 are those of AVX2, whose scales come
// in where sums of pairs are added: VNNI would save little (not tried).
#include <immintrin.h>

#include "kernels/cpu/int8_avx2.h"
#include "kernels/cpu/int8_avx2_blocks.h"
#include "kernels/cpu/int8_matmul.h"

namespace thermocline::kernels {
namespace {

struct VnniDot {
  static constexpr bool kFlipsSigns = true;
  using Lanes = Ints;

  static __m256i Signed(__m256i w, __m256i x) {
    return Add(_mm256_setzero_si256(),
               _mm256_xor_si256(w, _mm256_set1_epi8(-128)), x);
  }
  static __m256i Two(__m256i w0, __m256i x0, __m256i w1, __m256i x1) {
    return Add(Add(_mm256_setzero_si256(), w0, x0), w1, x1);
  }
  template <bool kFifthBit>
  static __m256i Meet(__m256i a, __m256i b) {
    return Meet32<Ints>(a, b);
  }

 private:
  static __m256i Add(__m256i sums, __m256i w, __m256i x) {
    return _mm256_dpbusd_avx_epi32(sums, w, x);
  }
};

}  // namespace

void FillInt8MatMulsAvxVnni(KernelTable& table) {
  FillBlocks32<VnniDot>(/*prefetches_ahead=*/true, table);
}

}  // namespace thermocline::kernels
