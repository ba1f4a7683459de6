// What the tile products of tile_avx512.cc and tile_avx512_vnni.cc share: all
// of a Simd (tile_driver.h) but how it multiplies bytes.
#ifndef THERMOCLINE_KERNELS_CPU_TILE_AVX512_H_
#define THERMOCLINE_KERNELS_CPU_TILE_AVX512_H_

// Empty unless compiled for AVX-512, so that it compiles alone anywhere.
#if defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

// Unnamed in a header on purpose: each including file must keep its own copy,
// compiled with its own flags.
namespace thermocline::kernels {
namespace {

struct Avx512 {
  using Bytes = __m512i;
  using Ints = __m512i;
  using Floats = __m512;
  static constexpr size_t kLanes = 16;
  static constexpr bool kFewRegisters = false;

  static Floats Zero() { return _mm512_setzero_ps(); }
  static Floats Load(const float* p) { return _mm512_loadu_ps(p); }
  static void Store(Floats v, float* p) { _mm512_storeu_ps(p, v); }
  static Floats Splat(float x) { return _mm512_set1_ps(x); }
  static Floats Add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
  static Floats Mul(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  static Floats MulAdd(Floats a, Floats b, Floats c) {
    return _mm512_fmadd_ps(a, b, c);
  }
  static Floats ToFloats(Ints v) { return _mm512_cvtepi32_ps(v); }
  static Ints SplatInts(int32_t x) { return _mm512_set1_epi32(x); }

  // Four quants of a token, in every lane.
  static Bytes SplatQuants(const int8_t q[4]) {
    int32_t word;
    __builtin_memcpy(&word, q, sizeof(word));
    return _mm512_set1_epi32(word);
  }

  static void LoadColumns(const std::byte* const* rows, size_t offset,
                          Bytes out[4]) {
    // Lane l of 128 bits of four[i] has row 4l + i.
    Bytes four[4];
    for (size_t i = 0; i < 4; ++i) {
      const auto load = [&](size_t row) {
        return _mm_loadu_si128(
            reinterpret_cast<const __m128i*>(rows[row] + offset));
      };
      four[i] = _mm512_castsi128_si512(load(i));
      four[i] = _mm512_inserti32x4(four[i], load(4 + i), 1);
      four[i] = _mm512_inserti32x4(four[i], load(8 + i), 2);
      four[i] = _mm512_inserti32x4(four[i], load(12 + i), 3);
    }
    const Bytes low01 = _mm512_unpacklo_epi32(four[0], four[1]);
    const Bytes low23 = _mm512_unpacklo_epi32(four[2], four[3]);
    const Bytes high01 = _mm512_unpackhi_epi32(four[0], four[1]);
    const Bytes high23 = _mm512_unpackhi_epi32(four[2], four[3]);
    out[0] = _mm512_unpacklo_epi64(low01, low23);
    out[1] = _mm512_unpackhi_epi64(low01, low23);
    out[2] = _mm512_unpacklo_epi64(high01, high23);
    out[3] = _mm512_unpackhi_epi64(high01, high23);
  }
  static Bytes LoadHeads(const uint32_t* words) {
    return _mm512_loadu_si512(words);
  }

  static Bytes Bits(Bytes v, int shift, int mask) {
    if (shift > 0) v = _mm512_slli_epi16(v, static_cast<unsigned>(shift));
    if (shift < 0) v = _mm512_srli_epi16(v, static_cast<unsigned>(-shift));
    return _mm512_and_si512(v, _mm512_set1_epi8(static_cast<char>(mask)));
  }
  static Bytes Or(Bytes a, Bytes b) { return _mm512_or_si512(a, b); }
  static Bytes FlipTop(Bytes v) {
    return _mm512_xor_si512(v, _mm512_set1_epi8(-128));
  }
  static Bytes Centre(Bytes v) { return v; }
  static Bytes SpreadBits(Bytes v, size_t i) {
    const __m128i order = _mm_add_epi8(
        _mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12),
        _mm_set1_epi8(static_cast<char>(i / 2)));
    const Bytes bytes = _mm512_shuffle_epi8(v, _mm512_broadcast_i32x4(order));
    const Bytes bit = _mm512_set1_epi32(
        i % 2 == 0 ? 0x08040201 : static_cast<int>(0x80402010));
    return _mm512_maskz_mov_epi8(_mm512_test_epi8_mask(bytes, bit),
                                 _mm512_set1_epi8(-128));
  }
  static Floats Unsigned(Bytes v, int i) {
    return ToFloats(
        _mm512_and_si512(_mm512_srli_epi32(v, static_cast<unsigned>(8 * i)),
                         _mm512_set1_epi32(0xFF)));
  }
  static Floats Signed(Bytes v, int i) {
    return ToFloats(_mm512_srai_epi32(
        _mm512_slli_epi32(v, static_cast<unsigned>(24 - 8 * i)), 24));
  }
  static Floats LowHalf(Bytes v) {
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v));
  }
  static Floats HighHalf(Bytes v) {
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(v, 16)));
  }
};

}  // namespace
}  // namespace thermocline::kernels

#endif  // AVX-512
#endif  // THERMOCLINE_KERNELS_CPU_TILE_AVX512_H_
