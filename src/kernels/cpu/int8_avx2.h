// What the int8 kernels in AVX2 with FMA and F16C share; the formats with
// blocks of 32 are in int8_avx2_blocks.h, those with blocks of 256 in
// int8_avx2_k.cc.
//
// A step is 256 quants in eight registers. Dot products of bytes leave sums of
// two in 16-bit lanes (with AVX-VNNI, int8_avx_vnni.cc, of four in 32-bit
// ones), and what costs most is to add up the lanes of a block. Registers do
// that in pairs: Meet64 makes one of two, each half of it the sum of one's
// halves; Meet32 and MeetLanes likewise. So eight registers end as the eight
// sums of eight blocks, which meet eight scales in one fused multiply-add. As
// many levels as the quants allow stay in 16 bits; a multiplication by ones
// does the last, to 32.
//
// Several rows go through a step side by side, each stage for all of them
// before the next: a row's own chain is long, and a processor that meets row
// after row runs out of registers to look ahead with.
#ifndef THERMOCLINE_KERNELS_CPU_INT8_AVX2_H_
#define THERMOCLINE_KERNELS_CPU_INT8_AVX2_H_

// Empty unless compiled for AVX2, so that it compiles alone anywhere.
#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/int8_driver.h"
#include "kernels/kernels.h"
#include "tensor/blocks.h"

// Unnamed in a header on purpose: each including file must keep its own copy,
// compiled with its own flags.
namespace thermocline::kernels {
namespace {

inline uint32_t LoadU32(const std::byte* p) {
  uint32_t value;
  __builtin_memcpy(&value, p, sizeof(value));
  return value;
}

inline __m128i Load128(const void* p) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}

inline __m256i Load256(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}

// 16 bytes from each of two places.
inline __m256i LoadTwo128(const void* low, const void* high) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(Load128(low)),
                                 Load128(high), 1);
}

// The 16-bit words at p, p + kStride, p + 2 * kStride, ... Word k is loaded
// from where it has to go, so that hardly anything is shuffled. Reads nothing
// outside the eight times kStride bytes from p on, kStride >= 18.
template <size_t kStride>
inline __m128i EachWord(const std::byte* p) {
  const auto load = [p](size_t k) { return Load128(p + k * (kStride - 2)); };
  __m128i words = load(0);
  words = _mm_blend_epi16(words, load(1), 1 << 1);
  words = _mm_blend_epi16(words, load(2), 1 << 2);
  words = _mm_blend_epi16(words, load(3), 1 << 3);
  words = _mm_blend_epi16(words, load(4), 1 << 4);
  words = _mm_blend_epi16(words, load(5), 1 << 5);
  words = _mm_blend_epi16(words, load(6), 1 << 6);
  return _mm_blend_epi16(words, load(7), 1 << 7);
}

// The same, as words of neighbours are 16 bytes apart: two to a load.
template <>
inline __m128i EachWord<18>(const std::byte* p) {
  const __m256i first =
      _mm256_blend_epi32(Load256(p), Load256(p + 32), 1 << 1 | 1 << 5);
  const __m256i second =
      _mm256_blend_epi32(Load256(p + 64), Load256(p + 96), 1 << 3 | 1 << 7);
  const __m256i words = _mm256_blend_epi32(first, second, 0xCC);
  return _mm_blend_epi16(_mm256_castsi256_si128(words),
                         _mm256_extracti128_si256(words, 1), 0xAA);
}

// Of heads of Q4_K or Q5_K, one in each half: eight scales, then eight minima,
// of six bits. Blocks begin with d and dmin; of the three words that follow,
// the first two have scales and minima 0-3 in the low six bits of their bytes;
// the third has the low four bits of scales and minima 4-7, whose upper two are
// on top of the first.
inline __m256i SixBits(__m256i heads) {
  const __m256i low = _mm256_and_si256(
      _mm256_srlv_epi32(_mm256_shuffle_epi32(heads, _MM_SHUFFLE(3, 2, 3, 1)),
                        _mm256_setr_epi32(0, 0, 0, 4, 0, 0, 0, 4)),
      _mm256_setr_epi32(0x3F3F3F3F, 0x0F0F0F0F, 0x3F3F3F3F, 0x0F0F0F0F,
                        0x3F3F3F3F, 0x0F0F0F0F, 0x3F3F3F3F, 0x0F0F0F0F));
  const __m256i high = _mm256_and_si256(
      _mm256_srli_epi32(_mm256_shuffle_epi32(heads, _MM_SHUFFLE(2, 2, 1, 1)),
                        2),
      _mm256_set1_epi64x(0x3030303000000000));
  return _mm256_or_si256(low, high);
}

// A constant that stays in a register: as an operand in memory it would take
// turns with the weights at being loaded.
inline __m256i InRegister(__m256i v) {
  asm("" : "+x"(v));
  return v;
}

inline __m256i LowNibbles(__m256i v) {
  return _mm256_and_si256(v, InRegister(_mm256_set1_epi8(0x0F)));
}

inline __m256i HighNibbles(__m256i v) {
  return LowNibbles(_mm256_srli_epi16(v, 4));
}

// Sums of neighbours, from 16 to 32 bits.
inline __m256i AddPairs(__m256i words) {
  return _mm256_madd_epi16(words, _mm256_set1_epi16(1));
}

struct Words {
  static __m256i Add(__m256i a, __m256i b) { return _mm256_add_epi16(a, b); }
};
struct Ints {
  static __m256i Add(__m256i a, __m256i b) { return _mm256_add_epi32(a, b); }
};

// In each 128 bits: a's low 64 bits + a's high ones, then b's.
template <class Lanes>
inline __m256i Meet64(__m256i a, __m256i b) {
  return Lanes::Add(_mm256_blend_epi32(a, b, 0xCC),
                    _mm256_alignr_epi8(b, a, 8));
}

// In each 128 bits: sums of a's neighbours of 32 bits, then of b's.
template <class Lanes>
inline __m256i Meet32(__m256i a, __m256i b) {
  const __m256 a_floats = _mm256_castsi256_ps(a);
  const __m256 b_floats = _mm256_castsi256_ps(b);
  return Lanes::Add(
      _mm256_castps_si256(_mm256_shuffle_ps(a_floats, b_floats, 0x88)),
      _mm256_castps_si256(_mm256_shuffle_ps(a_floats, b_floats, 0xDD)));
}

// a's low 128 bits + a's high ones, then b's.
template <class Lanes>
inline __m256i MeetLanes(__m256i a, __m256i b) {
  return Lanes::Add(_mm256_blend_epi32(a, b, 0xF0),
                    _mm256_permute2x128_si256(a, b, 0x21));
}

// Two of the registers that hold the quants of a row's step.
struct QuantPair {
  __m256i first;
  __m256i second;
};

// out[i][r] = meet(part(r, 2i), part(r, 2i + 1)), all rows side by side.
template <size_t kRows, class Part, class Meet>
[[gnu::always_inline]] inline void MeetParts(const Part& part, const Meet& meet,
                                             __m256i (&out)[2][kRows]) {
#pragma clang loop unroll(full)
  for (size_t i = 0; i < 2; ++i) {
    __m256i first[kRows];
    for (size_t r = 0; r < kRows; ++r) first[r] = part(r, 2 * i);
    for (size_t r = 0; r < kRows; ++r) {
      out[i][r] = meet(first[r], part(r, 2 * i + 1));
    }
  }
}

// Where a step's weights come from. Either gives, of row r: Pair(r, i), the
// registers 2i and 2i + 1, and Scales(r), what sums are multiplied with.

// Rows that are unpacked as they are multiplied.
template <class Format, size_t kRows>
struct PackedRows {
  const std::byte* const (&rows)[kRows];
  size_t offset;

  QuantPair Pair(size_t r, size_t i) const {
    return Format::UnpackPair(rows[r] + offset, i);
  }
  typename Format::Scales Scales(size_t r) const {
    return Format::UnpackScales(rows[r] + offset);
  }
};

// One row that was unpacked before, for many tokens.
template <class Format>
struct UnpackedRow {
  QuantPair pairs[4];
  typename Format::Scales scales;

  explicit UnpackedRow(const std::byte* blocks)
      : scales(Format::UnpackScales(blocks)) {
    for (size_t i = 0; i < 4; ++i) pairs[i] = Format::UnpackPair(blocks, i);
  }
  const QuantPair& Pair(size_t, size_t i) const { return pairs[i]; }
  const typename Format::Scales& Scales(size_t) const { return scales; }
};

// Rows whose sums have a register each.
template <class Format, size_t kRows>
struct SideBySide : RowSums<__m256, kRows> {
  using RowSums<__m256, kRows>::RowSums;

  template <class PrefetchRow>
  [[gnu::always_inline]] void Step(const std::byte* const (&rows)[kRows],
                                   size_t offset,
                                   const typename Format::Input& input,
                                   const PrefetchRow& prefetch) {
    for (size_t r = 0; r < kRows; ++r) prefetch(r);
    Format::template Add<kRows>(PackedRows<Format, kRows>{rows, offset}, input,
                                this->sums);
  }
};

template <class Format, size_t kRows>
struct GroupOfRows {
  using Type = SideBySide<Format, kRows>;
};
template <class Format, size_t kRows>
  requires requires { typename Format::template Pairs<kRows>; }
struct GroupOfRows<Format, kRows> {
  using Type = typename Format::template Pairs<kRows>;
};

// What the driver asks of a format, from a Format's
//   kBlockBytes, kBlockElems, kStepBlocks, Input, Prepare()
//   Scales, UnpackScales(blocks), UnpackPair(blocks, i)
//   Add<kRows>(weights, input, acc): of kRows rows
//   Pairs<kRows>: if it likes, a Group of rows that come two and two
template <class Format, bool kPrefetches>
struct Avx2Format : Format {
  using Acc = __m256;
  using typename Format::Input;
  using Weights = UnpackedRow<Format>;
  template <size_t kRows>
  using Group = typename GroupOfRows<Format, kRows>::Type;

  static constexpr bool kLeavesPrefetchToHardware = !kPrefetches;

  static Weights Unpack(const std::byte* blocks) { return Weights(blocks); }

  static Acc Step(const Weights& weights, const Input& input, Acc acc) {
    Acc sums[1] = {acc};
    Format::template Add<1>(weights, input, sums);
    return sums[0];
  }

  static Acc Zero() { return _mm256_setzero_ps(); }

  static float Reduce(Acc acc) {
    __m128 sum =
        _mm_add_ps(_mm256_castps256_ps128(acc), _mm256_extractf128_ps(acc, 1));
    sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
    return _mm_cvtss_f32(_mm_add_ss(sum, _mm_movehdup_ps(sum)));
  }
};

// Sets a type's products; listed rows have a way of asking of their own.
template <class Format>
void FillAvx2Format(DType dtype, bool prefetches_ahead, KernelTable& table) {
  using Prefetched = Int8MatMul<Avx2Format<Format, true>>;
  if (prefetches_ahead) {
    Prefetched::FillMatMul(dtype, table);
  } else {
    Int8MatMul<Avx2Format<Format, false>>::FillMatMul(dtype, table);
  }
  Prefetched::FillDotRows(dtype, table);
}

}  // namespace
}  // namespace thermocline::kernels

#endif  // __AVX2__ && __FMA__ && __F16C__

#endif  // THERMOCLINE_KERNELS_CPU_INT8_AVX2_H_
