// Int8 matrix products for AVX2 of the formats with blocks of 32.
#include "kernels/cpu/int8_avx2.h"

#include <immintrin.h>

#include "kernels/cpu/int8_avx2_blocks.h"
#include "kernels/cpu/int8_matmul.h"

namespace thermocline::kernels {
namespace {

// Products of bytes leave sums of two in 16 bits.
struct NarrowDot {
  static constexpr bool kFlipsSigns = false;
  using Lanes = Words;

  // The sign moves from the weight to the activation, which is never -128. A
  // weight of -128 becomes 128: two products still fit in 16 bits.
  static __m256i Signed(__m256i w, __m256i x) {
    return AddPairs(
        _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w)));
  }

  static __m256i Two(__m256i w0, __m256i x0, __m256i w1, __m256i x1) {
    return _mm256_add_epi16(_mm256_maddubs_epi16(w0, x0),
                            _mm256_maddubs_epi16(w1, x1));
  }

  // Four bits: 16 * 15 * 127 < 2^15. Five: 8 * 31 * 127, but not twice.
  template <bool kFifthBit>
  static __m256i Meet(__m256i a, __m256i b) {
    return kFifthBit ? Meet32<Ints>(AddPairs(a), AddPairs(b))
                     : AddPairs(Meet32<Words>(a, b));
  }
};

}  // namespace

void FillInt8MatMulsAvx2(bool prefetches_ahead, KernelTable& table) {
  FillBlocks32<NarrowDot>(prefetches_ahead, table);
}

}  // namespace thermocline::kernels
