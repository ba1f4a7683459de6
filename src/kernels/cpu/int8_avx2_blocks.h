// The formats with blocks of 32 in AVX2, for the files that differ in how they
// multiply bytes: int8_avx2.cc and int8_avx_vnni.cc. A step has eight blocks.
//
// A Dot has
//   Signed(w, x)         sums of four products, w signed, in 32 bits
//   kFlipsSigns          whether these are products of w + 128
//   Lanes                Words or Ints, in which Two() and Meet64() add up
//   Two(w0, x0, w1, x1)  sums of four or eight products, w unsigned: of two
//       registers that belong to the same blocks
//   Meet<kFifthBit>(a, b)  Meet32 of what Meet64 made of them, in 32 bits; w is
//       below 32 or, without the fifth bit, below 16
#ifndef THERMOCLINE_KERNELS_CPU_INT8_AVX2_BLOCKS_H_
#define THERMOCLINE_KERNELS_CPU_INT8_AVX2_BLOCKS_H_

#include "kernels/cpu/int8_avx2.h"

// Empty unless compiled for AVX2, so that it compiles alone anywhere.
#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/int8_driver.h"
#include "kernels/kernels.h"
#include "tensor/blocks.h"

// Unnamed for the reason that int8_avx2.h gives.
namespace thermocline::kernels {
namespace {

template <class Block>
struct Block32 {
  static constexpr size_t kBlockBytes = sizeof(Block);
  static constexpr size_t kBlockElems = kBlock;
  static constexpr size_t kStepBlocks = 8;

  // The first numbers of eight blocks.
  static __m256 Heads(const std::byte* blocks) {
    return _mm256_cvtph_ps(EachWord<sizeof(Block)>(blocks));
  }
};

// Register b has block b.
template <class Dot>
struct Q8_0 : Block32<BlockQ8_0> {
  using Scales = __m256;
  struct Input {
    // Of each block; then, with flipped signs, what these add to the sums.
    __m256i q[8 + (Dot::kFlipsSigns ? 1 : 0)];
    __m256 d;
  };

  static Input Prepare(const StepInput& x) {
    Input in;
    for (size_t b = 0; b < 8; ++b) in.q[b] = Load256(x.q + kBlock * b);
    if constexpr (Dot::kFlipsSigns) {
      in.q[8] = _mm256_slli_epi32(AddPairs(Load256(x.sum)), 7);
    }
    in.d = _mm256_loadu_ps(x.d);
    return in;
  }

  static Scales UnpackScales(const std::byte* blocks) { return Heads(blocks); }

  static QuantPair UnpackPair(const std::byte* blocks, size_t i) {
    const std::byte* qs =
        blocks + 2 * i * kBlockBytes + offsetof(BlockQ8_0, qs);
    return {Load256(qs), Load256(qs + kBlockBytes)};
  }

  template <size_t kRows, class Weights>
  [[gnu::always_inline]] static void Add(const Weights& w, const Input& x,
                                         __m256 (&acc)[kRows]) {
    __m256i fours[2][kRows];
    MeetParts([&](size_t r, size_t i)
                  __attribute__((always_inline)) { return Dots(w, r, i, x); },
              Meet32<Ints>, fours);
#pragma clang loop unroll(full)
    for (size_t r = 0; r < kRows; ++r) {
      __m256i sums = MeetLanes<Ints>(fours[0][r], fours[1][r]);
      if constexpr (Dot::kFlipsSigns) sums = _mm256_sub_epi32(sums, x.q[8]);
      acc[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums),
                               _mm256_mul_ps(w.Scales(r), x.d), acc[r]);
    }
  }

 private:
  // Of two blocks.
  template <class Weights>
  [[gnu::always_inline]] static __m256i Dots(const Weights& w, size_t r,
                                             size_t i, const Input& x) {
    const QuantPair pair = w.Pair(r, i);
    return Meet64<Ints>(Dot::Signed(pair.first, x.q[2 * i]),
                        Dot::Signed(pair.second, x.q[2 * i + 1]));
  }
};

// What quants are worth.
enum class Offset {
  kZeroPoint,  // d * (q - 2^kZeroBits)
  kMin,        // d * q + m
};

// Formats of nibbles, and maybe a fifth bit. Registers 2i and 2i + 1 have the
// first and the second halves of the blocks i and i + 4.
template <class Dot, class Block, bool kFifthBit, Offset kOffset,
          int kZeroBits = 0>
struct NibbleBlocks : Block32<Block> {
  static constexpr bool kHasMin = kOffset == Offset::kMin;

  struct Scales {
    __m256 d;
    __m256 min;
  };
  struct Input {
    __m256i q[8];
    __m256 d;
    __m256i zero;  // what the zero point adds to the sums
    __m256 d_sum;  // d times the sum of the block
  };

  static Input Prepare(const StepInput& x) {
    Input in;
    for (size_t i = 0; i < 4; ++i) {
      const int8_t* q = x.q + kBlock * i;
      in.q[2 * i] = LoadTwo128(q, q + 4 * kBlock);
      in.q[2 * i + 1] = LoadTwo128(q + 16, q + 4 * kBlock + 16);
    }
    in.d = _mm256_loadu_ps(x.d);
    const __m256i sums = AddPairs(Load256(x.sum));
    if constexpr (kHasMin) {
      in.d_sum = _mm256_mul_ps(in.d, _mm256_cvtepi32_ps(sums));
    } else {
      in.zero = _mm256_slli_epi32(sums, kZeroBits);
    }
    return in;
  }

  static Scales UnpackScales(const std::byte* blocks) {
    Scales scales = {.d = NibbleBlocks::Heads(blocks)};
    if constexpr (kHasMin) {
      scales.min = NibbleBlocks::Heads(blocks + offsetof(Block, m));
    }
    return scales;
  }

  static QuantPair UnpackPair(const std::byte* blocks, size_t i) {
    const std::byte* block = blocks + sizeof(Block) * i;
    const std::byte* other = block + sizeof(Block) * 4;
    const __m256i bytes =
        LoadTwo128(block + offsetof(Block, qs), other + offsetof(Block, qs));
    QuantPair pair = {LowNibbles(bytes), HighNibbles(bytes)};
    if constexpr (kFifthBit) {
      AddFifthBits(LoadU32(block + offsetof(Block, qh)),
                   LoadU32(other + offsetof(Block, qh)), pair);
    }
    return pair;
  }

  template <size_t kRows, class Weights>
  [[gnu::always_inline]] static void Add(const Weights& w, const Input& x,
                                         __m256 (&acc)[kRows]) {
    __m256i twos[2][kRows];
    MeetParts([&](size_t r, size_t i)
                  __attribute__((always_inline)) { return Dots(w, r, i, x); },
              Meet64<typename Dot::Lanes>, twos);
    __m256i sums[kRows];
    for (size_t r = 0; r < kRows; ++r) {
      sums[r] = Dot::template Meet<kFifthBit>(twos[0][r], twos[1][r]);
    }
#pragma clang loop unroll(full)
    for (size_t r = 0; r < kRows; ++r) {
      const Scales scales = w.Scales(r);
      if constexpr (kHasMin) {
        acc[r] = _mm256_fmadd_ps(scales.min, x.d_sum, acc[r]);
      } else {
        sums[r] = _mm256_sub_epi32(sums[r], x.zero);
      }
      acc[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums[r]),
                               _mm256_mul_ps(scales.d, x.d), acc[r]);
    }
  }

 private:
  // Of the blocks i and i + 4.
  template <class Weights>
  [[gnu::always_inline]] static __m256i Dots(const Weights& w, size_t r,
                                             size_t i, const Input& x) {
    const QuantPair pair = w.Pair(r, i);
    return Dot::Two(pair.first, x.q[2 * i], pair.second, x.q[2 * i + 1]);
  }

  // Sets bit 4 where one of the low 16 bits of the first word is set, then the
  // second word; in the pair's second by their high 16 bits.
  static void AddFifthBits(uint32_t first, uint32_t second, QuantPair& pair) {
    const __m256i words =
        _mm256_setr_m128i(_mm_set1_epi32(static_cast<int>(first)),
                          _mm_set1_epi32(static_cast<int>(second)));
    const __m256i order =
        _mm256_broadcastsi128_si256(_mm_set_epi64x(0x0101010101010101, 0));
    pair.first = _mm256_or_si256(pair.first, SixteenWhere(words, order));
    pair.second = _mm256_or_si256(
        pair.second,
        SixteenWhere(words, _mm256_add_epi8(order, _mm256_set1_epi8(2))));
  }
  static __m256i SixteenWhere(__m256i words, __m256i order) {
    const __m256i bit =
        _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
    const __m256i spread = _mm256_shuffle_epi8(words, order);
    const __m256i hit = _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit), bit);
    return _mm256_and_si256(hit, _mm256_set1_epi8(16));
  }
};

template <class Dot>
struct Q4_0 : NibbleBlocks<Dot, BlockQ4_0, false, Offset::kZeroPoint, 3> {};
template <class Dot>
struct Q4_1 : NibbleBlocks<Dot, BlockQ4_1, false, Offset::kMin> {};
template <class Dot>
struct Q5_0 : NibbleBlocks<Dot, BlockQ5_0, true, Offset::kZeroPoint, 4> {};
template <class Dot>
struct Q5_1 : NibbleBlocks<Dot, BlockQ5_1, true, Offset::kMin> {};

// Sets the products of all of them.
template <class Dot>
void FillBlocks32(bool prefetches_ahead, KernelTable& table) {
  FillAvx2Format<Q8_0<Dot>>(DType::kQ8_0, prefetches_ahead, table);
  FillAvx2Format<Q4_0<Dot>>(DType::kQ4_0, prefetches_ahead, table);
  FillAvx2Format<Q4_1<Dot>>(DType::kQ4_1, prefetches_ahead, table);
  FillAvx2Format<Q5_0<Dot>>(DType::kQ5_0, prefetches_ahead, table);
  FillAvx2Format<Q5_1<Dot>>(DType::kQ5_1, prefetches_ahead, table);
}

}  // namespace
}  // namespace thermocline::kernels

#endif  // __AVX2__ && __FMA__ && __F16C__
#endif  // THERMOCLINE_KERNELS_CPU_INT8_AVX2_BLOCKS_H_
