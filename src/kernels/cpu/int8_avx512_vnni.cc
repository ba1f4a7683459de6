// Int8 matrix products for AVX-512 with VNNI.
#include "kernels/cpu/int8_avx512.h"
#include "kernels/cpu/int8_matmul.h"

namespace thermocline::kernels {
namespace {

struct UnsignedDot {
  static __m512i One(__m512i w, __m512i x) {
    return _mm512_dpbusd_epi32(_mm512_setzero_si512(), w, x);
  }
  static __m512i Pair(__m512i w0, __m512i x0, __m512i w1, __m512i x1) {
    return _mm512_dpbusd_epi32(One(w0, x0), w1, x1);
  }
};

}  // namespace

void FillInt8MatMulsAvx512Vnni(KernelTable& table) {
  FillUnsigned<UnsignedDot>(table);
  // With the sign bit flipped the quants are unsigned and 128 too large.
  Int8MatMul<Q8_0<UnsignedDot, -128, Offset::kZeroPoint, 7>>::Fill(DType::kQ8_0,
                                                                   table);
}

}  // namespace thermocline::kernels
