// What the tile products of tile_avx2.cc and tile_avx_vnni.cc share: all of a
// Simd (tile_driver.h) but how it multiplies bytes.
#ifndef THERMOCLINE_KERNELS_CPU_TILE_AVX2_H_
#define THERMOCLINE_KERNELS_CPU_TILE_AVX2_H_

// Empty unless compiled for AVX2, so that it compiles alone anywhere.
#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

// Unnamed in a header on purpose: each including file must keep its own copy,
// compiled with its own flags.
namespace thermocline::kernels {
namespace {

struct Avx2 {
  using Bytes = __m256i;
  using Ints = __m256i;
  using Floats = __m256;
  static constexpr size_t kLanes = 8;
  static constexpr size_t kGroups = 2;
  static constexpr bool kFewRegisters = true;

  static Floats Zero() { return _mm256_setzero_ps(); }
  static Floats Load(const float* p) { return _mm256_loadu_ps(p); }
  static void Store(Floats v, float* p) { _mm256_storeu_ps(p, v); }
  static Floats Splat(float x) { return _mm256_set1_ps(x); }
  static Floats Add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
  static Floats Mul(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  static Floats MulAdd(Floats a, Floats b, Floats c) {
    return _mm256_fmadd_ps(a, b, c);
  }
  static Floats ToFloats(Ints v) { return _mm256_cvtepi32_ps(v); }
  static Ints SplatInts(int32_t x) { return _mm256_set1_epi32(x); }

  // Four quants of a token, in every lane.
  static Bytes SplatQuants(const int8_t q[4]) {
    int32_t word;
    __builtin_memcpy(&word, q, sizeof(word));
    return _mm256_set1_epi32(word);
  }

  static void LoadColumns(const std::byte* const* rows, size_t offset,
                          Bytes out[4]) {
    // four[i] has rows i and 4 + i.
    Bytes four[4];
    for (size_t i = 0; i < 4; ++i) {
      const auto load = [&](size_t row) {
        return _mm_loadu_si128(
            reinterpret_cast<const __m128i*>(rows[row] + offset));
      };
      four[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(load(i)),
                                        load(4 + i), 1);
    }
    const Bytes low01 = _mm256_unpacklo_epi32(four[0], four[1]);
    const Bytes low23 = _mm256_unpacklo_epi32(four[2], four[3]);
    const Bytes high01 = _mm256_unpackhi_epi32(four[0], four[1]);
    const Bytes high23 = _mm256_unpackhi_epi32(four[2], four[3]);
    out[0] = _mm256_unpacklo_epi64(low01, low23);
    out[1] = _mm256_unpackhi_epi64(low01, low23);
    out[2] = _mm256_unpacklo_epi64(high01, high23);
    out[3] = _mm256_unpackhi_epi64(high01, high23);
  }
  static Bytes LoadHeads(const uint32_t* words) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words));
  }

  static Bytes Bits(Bytes v, int shift, int mask) {
    if (shift > 0) v = _mm256_slli_epi16(v, shift);
    if (shift < 0) v = _mm256_srli_epi16(v, -shift);
    return _mm256_and_si256(v, _mm256_set1_epi8(static_cast<char>(mask)));
  }
  static Bytes Or(Bytes a, Bytes b) { return _mm256_or_si256(a, b); }
  static Bytes FlipTop(Bytes v) {
    return _mm256_xor_si256(v, _mm256_set1_epi8(-128));
  }
  static Bytes Centre(Bytes v) { return v; }
  static Bytes SpreadBits(Bytes v, size_t i) {
    const __m128i order = _mm_add_epi8(
        _mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12),
        _mm_set1_epi8(static_cast<char>(i / 2)));
    const Bytes bytes =
        _mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(order));
    const Bytes bit = _mm256_set1_epi32(
        i % 2 == 0 ? 0x08040201 : static_cast<int>(0x80402010));
    return _mm256_and_si256(
        _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit),
        _mm256_set1_epi8(-128));
  }
  static Floats Unsigned(Bytes v, int i) {
    return ToFloats(
        _mm256_and_si256(_mm256_srli_epi32(v, 8 * i), _mm256_set1_epi32(0xFF)));
  }
  static Floats Signed(Bytes v, int i) {
    return ToFloats(_mm256_srai_epi32(_mm256_slli_epi32(v, 24 - 8 * i), 24));
  }
  static Floats LowHalf(Bytes v) { return HighHalf(_mm256_slli_epi32(v, 16)); }
  static Floats HighHalf(Bytes v) {
    const Bytes words = _mm256_srli_epi32(v, 16);
    return _mm256_cvtph_ps(_mm_packus_epi32(
        _mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
  }
};

}  // namespace
}  // namespace thermocline::kernels

#endif  // __AVX2__ && __FMA__ && __F16C__
#endif  // THERMOCLINE_KERNELS_CPU_TILE_AVX2_H_
