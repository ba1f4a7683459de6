// The K formats in AVX-512 (int8_avx512.h), and all of them together.
#ifndef THERMOCLINE_KERNELS_CPU_INT8_AVX512_K_H_
#define THERMOCLINE_KERNELS_CPU_INT8_AVX512_K_H_

#include "kernels/cpu/int8_avx512.h"

// Empty unless compiled for AVX-512, so that it compiles alone anywhere.
#if defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/int8_driver.h"
#include "kernels/kernels.h"
#include "tensor/blocks.h"

// Unnamed for the reason that int8_avx512.h gives.
namespace thermocline::kernels {
namespace {

// Formats with blocks of 256; a step is one block.
template <class Block>
struct Block256 {
  static constexpr size_t kBlockBytes = sizeof(Block);
  static constexpr size_t kBlockElems = kSuperBlock;
  static constexpr size_t kStepBlocks = 1;
};

// d * scale and dmin * min of each sub-block of Q4_K and Q5_K in turn. Their
// blocks begin with d, dmin and the twelve bytes that pack eight scales and
// eight minima of six bits.
inline __m512 UnpackScales(const std::byte* block) {
  constexpr uint64_t kSixBits = 0x3F3F3F3F3F3F3F3F;
  constexpr uint64_t kLowFour = 0x0F0F0F0F0F0F0F0F;
  constexpr uint64_t kUpperTwo = 0x3030303030303030;
  uint64_t first;
  __builtin_memcpy(&first, block + 4, sizeof(first));
  const uint64_t last = LoadU32(block + 12);
  const uint64_t second =
      ((last | last << 28) & kLowFour) | (first >> 2 & kUpperTwo);
  const __m128i in_turn =
      _mm_setr_epi8(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
  const __m128i six_bits =
      _mm_shuffle_epi8(_mm_set_epi64x(static_cast<int64_t>(second),
                                      static_cast<int64_t>(first & kSixBits)),
                       in_turn);
  const __m512 factors =
      _mm512_cvtph_ps(_mm256_set1_epi32(static_cast<int>(LoadU32(block))));
  return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(six_bits)),
                       factors);
}

// Q4_K and Q5_K: 128 bytes, of which each 32 have the low bits of an even
// sub-block in their low nibbles, those of the next in the high ones.
template <class Dot>
inline void UnpackSubBlocks(const std::byte* qs, __m512i q[4]) {
  const __m512i low = Load512(qs);
  const __m512i high = Load512(qs + 64);
  const __m512i first = EvenLanes(low, high);
  const __m512i second = OddLanes(low, high);
  q[0] = LowNibbles(first);
  q[1] = LowNibbles(second);
  q[2] = Dot::HighNibbles(first);
  q[3] = Dot::HighNibbles(second);
}

template <class Dot>
struct Q4_K : Block256<BlockQ4_K>, Paired<Dot, Offset::kMinusMin> {
  static StepWeights Unpack(const std::byte* block) {
    StepWeights w;
    UnpackSubBlocks<Dot>(block + offsetof(BlockQ4_K, qs), w.q);
    w.scale = UnpackScales(block);
    return w;
  }
};

template <class Dot>
struct Q5_K : Block256<BlockQ5_K>, Paired<Dot, Offset::kMinusMin> {
  static StepWeights Unpack(const std::byte* block) {
    StepWeights w;
    UnpackSubBlocks<Dot>(block + offsetof(BlockQ5_K, qs), w.q);
    // Bit 2l of a byte belongs to the even sub-block of 128-bit lane l, the
    // next to the odd one.
    const __m512i even_bits = _mm512_setr_epi64(
        0x0101010101010101, 0x0101010101010101, 0x0404040404040404,
        0x0404040404040404, 0x1010101010101010, 0x1010101010101010,
        0x4040404040404040, 0x4040404040404040);
    const __m512i odd_bits = _mm512_add_epi8(even_bits, even_bits);
    const __m512i sixteen = _mm512_set1_epi8(16);
    for (int half = 0; half < 2; ++half) {
      const __m512i qh = _mm512_broadcast_i32x4(
          Load128(block + offsetof(BlockQ5_K, qh) + 16 * half));
      __m512i& even = w.q[half];
      __m512i& odd = w.q[2 + half];
      even = _mm512_mask_add_epi8(even, _mm512_test_epi8_mask(qh, even_bits),
                                  even, sixteen);
      odd = _mm512_mask_add_epi8(odd, _mm512_test_epi8_mask(qh, odd_bits), odd,
                                 sixteen);
    }
    w.scale = UnpackScales(block);
    return w;
  }
};

// Dot::One(w, x): sums of four products of bytes.
template <class Dot>
struct Q6_K : Block256<BlockQ6_K>, Avx512Acc {
  static Input Prepare(const StepInput& x) {
    Input in;
    for (int i = 0; i < 4; ++i) in.q[i] = Load512(x.q + 64 * i);
    in.d = SpreadScales(
        x.d, _mm512_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6, 1, 3, 5, 7, 1, 3, 5, 7));
    const __m512i order =
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    in.addend =
        _mm512_slli_epi32(_mm512_permutexvar_epi32(order, LoadSums(x.sum)), 5);
    return in;
  }

  static Acc Step(const Weights& w, const Input& x, Acc acc) {
    __m512i fours[4];
    for (int i = 0; i < 4; ++i) fours[i] = Dot::One(w.q[i], x.q[i]);
    const __m512i lanes = AddNeighbours(AddNeighbours(fours[0], fours[1]),
                                        AddNeighbours(fours[2], fours[3]));
    return Add(_mm512_sub_epi32(lanes, x.addend), w, x.d, acc);
  }

  // For 64-bit shifts: `low` for the first 32 bytes, `high` for the others.
  static __m512i Halves(int64_t low, int64_t high) {
    return _mm512_setr_epi64(low, low, low, low, high, high, high, high);
  }

  // Low four bits from `ql`, bits 4 and 5 from `qh`; others are ignored.
  static __m512i Join(__m512i ql, __m512i qh) {
    constexpr int kAOrBAndC = 0xF8;
    return _mm512_ternarylogic_epi64(LowNibbles(ql), qh, _mm512_set1_epi8(0x30),
                                     kAOrBAndC);
  }

  static __m512 Scales(const std::byte* block) {
    const __m128i lane_order =
        _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m128i scales = _mm_shuffle_epi8(
        Load128(block + offsetof(BlockQ6_K, scales)), lane_order);
    uint16_t d;
    __builtin_memcpy(&d, block + offsetof(BlockQ6_K, d), sizeof(d));
    return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(scales)),
                         _mm512_set1_ps(_cvtsh_ss(d)));
  }

  static StepWeights Unpack(const std::byte* block) {
    StepWeights w;
    for (int half = 0; half < 2; ++half) {
      const __m512i ql = Load512(block + offsetof(BlockQ6_K, ql) + 64 * half);
      const __m512i qh = _mm512_broadcast_i64x4(
          Load256(block + offsetof(BlockQ6_K, qh) + 32 * half));
      w.q[2 * half] = Join(ql, _mm512_sllv_epi64(qh, Halves(4, 2)));
      w.q[2 * half + 1] =
          Join(_mm512_srli_epi64(ql, 4), _mm512_srlv_epi64(qh, Halves(0, 2)));
    }
    w.scale = Scales(block);
    return w;
  }
};

// Calls fill.operator()<Format>(dtype) for every type but Q8_0, whose quants
// have a sign.
template <class Dot, class Fill>
void ForEachUnsigned(const Fill& fill) {
  fill.template operator()<Q4_0<Dot>>(DType::kQ4_0);
  fill.template operator()<Q4_1<Dot>>(DType::kQ4_1);
  fill.template operator()<Q5_0<Dot>>(DType::kQ5_0);
  fill.template operator()<Q5_1<Dot>>(DType::kQ5_1);
  fill.template operator()<Q4_K<Dot>>(DType::kQ4_K);
  fill.template operator()<Q5_K<Dot>>(DType::kQ5_K);
  fill.template operator()<Q6_K<Dot>>(DType::kQ6_K);
}

}  // namespace
}  // namespace thermocline::kernels

#endif  // AVX-512
#endif  // THERMOCLINE_KERNELS_CPU_INT8_AVX512_K_H_
