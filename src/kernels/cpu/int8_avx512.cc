// Int8 matrix products for AVX-512 without VNNI: F, BW, DQ, VL, CD.
#include "kernels/cpu/int8_avx512.h"

#include "kernels/cpu/int8_avx512_k.h"
#include "kernels/cpu/int8_matmul.h"

namespace thermocline::kernels {
namespace {

inline __m512i AddPairs(__m512i v) {
  return _mm512_madd_epi16(v, _mm512_set1_epi16(1));
}

// Sums stay in 16 bits: two products of quants up to 63, or four of quants up
// to 31, with activations up to 127 in magnitude.
struct UnsignedDot : ShiftedNibbles {
  static __m512i One(__m512i w, __m512i x) {
    return AddPairs(_mm512_maddubs_epi16(w, x));
  }
  static __m512i Pair(__m512i w0, __m512i x0, __m512i w1, __m512i x1) {
    return AddPairs(_mm512_add_epi16(_mm512_maddubs_epi16(w0, x0),
                                     _mm512_maddubs_epi16(w1, x1)));
  }
};

// The sign moves from the weight to the activation, which is never -128. A
// weight of -128 becomes 128: two products still fit in 16 bits, four do not.
struct SignedDot {
  static __m512i One(__m512i w, __m512i x) {
    const __m512i signed_x = _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(w),
                                                  _mm512_setzero_si512(), x);
    return AddPairs(_mm512_maddubs_epi16(_mm512_abs_epi8(w), signed_x));
  }
  static __m512i Pair(__m512i w0, __m512i x0, __m512i w1, __m512i x1) {
    return _mm512_add_epi32(One(w0, x0), One(w1, x1));
  }
};

}  // namespace

void FillInt8MatMulsAvx512(KernelTable& table) {
  const auto fill = [&]<class Format>(DType dtype) {
    Int8MatMul<Format>::Fill(dtype, table);
  };
  ForEachUnsigned<UnsignedDot>(fill);
  fill.operator()<Q8_0<SignedDot, 0, Offset::kNone, 0>>(DType::kQ8_0);
}

}  // namespace thermocline::kernels
