// How AVX-512 VNNI multiplies bytes; what int8_avx512_vnni.cc and
// int8_avx512_amd.cc share.
#ifndef THERMOCLINE_KERNELS_CPU_INT8_AVX512_VNNI_H_
#define THERMOCLINE_KERNELS_CPU_INT8_AVX512_VNNI_H_

#include "kernels/cpu/int8_avx512.h"

// Empty unless compiled for it, so that it compiles alone anywhere.
#ifdef __AVX512VNNI__

// Unnamed for the reason that int8_avx512.h gives.
namespace thermocline::kernels {
namespace {

struct VnniDot : ShiftedNibbles {
  static __m512i One(__m512i w, __m512i x) {
    return _mm512_dpbusd_epi32(_mm512_setzero_si512(), w, x);
  }
  static __m512i Pair(__m512i w0, __m512i x0, __m512i w1, __m512i x1) {
    return AddPair(_mm512_setzero_si512(), w0, x0, w1, x1);
  }
  static __m512i AddPair(__m512i sum, __m512i w0, __m512i x0, __m512i w1,
                         __m512i x1) {
    return _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(sum, w0, x0), w1, x1);
  }
};

// With the sign bit flipped the quants are unsigned and 128 too large.
using VnniQ8 = Q8_0<VnniDot, -128, Offset::kZeroPoint, 7>;

}  // namespace
}  // namespace thermocline::kernels

#endif  // __AVX512VNNI__
#endif  // THERMOCLINE_KERNELS_CPU_INT8_AVX512_VNNI_H_
