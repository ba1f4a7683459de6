// Numbers rounded to bf16, and as the sums of two of bf16.
#ifndef THERMOCLINE_KERNELS_CPU_AMX_HALVES_H_
#define THERMOCLINE_KERNELS_CPU_AMX_HALVES_H_

// Empty unless compiled for it, so that it compiles alone anywhere.
#if defined(__AVX512BF16__)

#include <immintrin.h>

#include <cstddef>

// Unnamed in a header for the reason that int8_avx512.h gives.
namespace thermocline::kernels {
namespace {

// Rounds 32 floats, `low` first.
inline __m512i ToBf16(__m512 low, __m512 high) {
  return __builtin_bit_cast(__m512i, _mm512_cvtne2ps_pbh(high, low));
}

// 32 numbers: what 16 bits of sign, exponent and mantissa hold of them, and
// what is left.
struct Halves {
  __m512i upper;
  __m512i lower;
};

// a, then b; rounded. Exact for what was F16.
inline Halves SplitInOrder(__m512 a, __m512 b) {
  const auto rest = [](__m512 x, __m256i upper) {
    return _mm512_sub_ps(x, _mm512_castsi512_ps(_mm512_slli_epi32(
                                _mm512_cvtepu16_epi32(upper), 16)));
  };
  const __m512i upper = ToBf16(a, b);
  return {upper, ToBf16(rest(a, _mm512_castsi512_si256(upper)),
                        rest(b, _mm512_extracti64x4_epi64(upper, 1)))};
}

inline __m512 LoadF16(const std::byte* at) {
  return _mm512_cvtph_ps(
      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
}

}  // namespace
}  // namespace thermocline::kernels

#endif

#endif  // THERMOCLINE_KERNELS_CPU_AMX_HALVES_H_
