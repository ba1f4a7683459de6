// The int8 formats in AVX-512, for the files that differ in how they multiply
// bytes: int8_avx512.cc, int8_avx512_vnni.cc and int8_avx512_amd.cc.
//
// A step is 256 quants in four registers. Dot products of bytes leave sums of
// four in 32-bit lanes; the work is to bring sums and scales together without
// reducing each block on its own. A step ends as 16 lanes of integers that meet
// 16 scales in one fused multiply-add. Two arrangements do that:
//
// Paired (all but Q6_K). Register "even 0" has the first halves of blocks 0, 2,
// 4, 6, one in each 128 bits, "even 1" their second halves, and "odd" likewise
// blocks 1, 3, 5, 7. The two halves add up in the multiplication, and one
// addition of neighbours leaves two lanes per block, in order. Formats with a
// minimum then use one lane of the two for the activation sum that belongs to
// it: lanes (dot 0, sum 0, dot 1, sum 1, ...) meet (d 0, m 0, d 1, m 1, ...),
// the order in which Q4_1 and Q5_1 have them.
//
// Plain (Q6_K, with a scale per 16). Register i has quants 64i .. 64i + 63;
// lane 4l + i gets the sum of 16 number 4i + l.
#ifndef THERMOCLINE_KERNELS_CPU_INT8_AVX512_H_
#define THERMOCLINE_KERNELS_CPU_INT8_AVX512_H_

// Empty unless compiled for AVX-512, so that it compiles alone anywhere.
#if defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)

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

inline __m512i Load512(const void* p) { return _mm512_loadu_si512(p); }

// Keeps a vector in a register, and what makes it before what follows.
template <class Vector>
[[gnu::always_inline]] inline void KeepInRegister(Vector& v) {
  asm volatile("" : "+v"(v));
}

inline __m512i LowNibbles(__m512i v) {
  return _mm512_and_si512(v, _mm512_set1_epi8(0x0F));
}

// High nibbles of bytes, for a Dot without an instruction of its own.
struct ShiftedNibbles {
  static __m512i HighNibbles(__m512i v) {
    return LowNibbles(_mm512_srli_epi64(v, 4));
  }
};

// Lanes of 128 bits: a0 a2 b0 b2.
inline __m512i EvenLanes(__m512i a, __m512i b) {
  return _mm512_shuffle_i64x2(a, b, _MM_SHUFFLE(2, 0, 2, 0));
}

// Lanes of 128 bits: a1 a3 b1 b3.
inline __m512i OddLanes(__m512i a, __m512i b) {
  return _mm512_shuffle_i64x2(a, b, _MM_SHUFFLE(3, 1, 3, 1));
}

// v with the 32-bit lanes of each pair exchanged.
inline __m512i SwapPairs(__m512i v) {
  return _mm512_shuffle_epi32(v, _MM_PERM_CDAB);
}

// In each 128 bits: a0 + a1, a2 + a3, b0 + b1, b2 + b3.
inline __m512i AddNeighbours(__m512i a, __m512i b) {
  const __m512 af = _mm512_castsi512_ps(a);
  const __m512 bf = _mm512_castsi512_ps(b);
  return _mm512_add_epi32(
      _mm512_castps_si512(_mm512_shuffle_ps(af, bf, _MM_SHUFFLE(2, 0, 2, 0))),
      _mm512_castps_si512(_mm512_shuffle_ps(af, bf, _MM_SHUFFLE(3, 1, 3, 1))));
}

// 16 activation sums, each the sum of 16 quants.
inline __m512i LoadSums(const int16_t sum[16]) {
  return _mm512_cvtepi16_epi32(Load256(sum));
}

// Lane i gets d[lanes[i]].
inline __m512 SpreadScales(const float d[8], __m512i lanes) {
  return _mm512_permutexvar_ps(lanes,
                               _mm512_castps256_ps512(_mm256_loadu_ps(d)));
}

struct StepWeights {
  __m512i q[4];
  __m512 scale;
};

// Prepared activations: `addend` is what comes to the integers of a step.
struct StepActivations {
  __m512i q[4];
  __m512i addend;
  __m512 d;
};

// How quants of a paired format relate to its weights.
enum class Offset {
  kNone,
  kZeroPoint,  // quants are stored too large by 1 << kZeroBits
  kPlusMin,    // weights are d * q + m
  kMinusMin,   // weights are d * q - m
};

struct Avx512Acc {
  using Weights = StepWeights;
  using Input = StepActivations;
  using Acc = __m512;

  static Acc Zero() { return _mm512_setzero_ps(); }
  static float Reduce(Acc acc) { return _mm512_reduce_add_ps(acc); }
  static Acc Add(__m512i lanes, const Weights& w, __m512 d, Acc acc) {
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(lanes), _mm512_mul_ps(w.scale, d),
                           acc);
  }
};

// Dot::Pair(w0, x0, w1, x1): sums of four of two products of bytes, added.
// Dot::HighNibbles(v).
template <class Dot, Offset kOffset, int kZeroBits = 0>
struct Paired : Avx512Acc {
  static constexpr bool kHasMin =
      kOffset == Offset::kPlusMin || kOffset == Offset::kMinusMin;

  static Input Prepare(const StepInput& x) {
    __m512i q[4];
    for (int i = 0; i < 4; ++i) q[i] = Load512(x.q + 64 * i);
    const __m512i first01 = EvenLanes(q[0], q[1]);
    const __m512i first23 = EvenLanes(q[2], q[3]);
    const __m512i second01 = OddLanes(q[0], q[1]);
    const __m512i second23 = OddLanes(q[2], q[3]);
    Input in;
    in.q[0] = EvenLanes(first01, first23);
    in.q[1] = EvenLanes(second01, second23);
    in.q[2] = OddLanes(first01, first23);
    in.q[3] = OddLanes(second01, second23);
    in.d = SpreadScales(
        x.d, _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7));
    const __m512i sums = LoadSums(x.sum);
    in.addend = kHasMin ? _mm512_add_epi32(sums, SwapPairs(sums))
                        : _mm512_slli_epi32(sums, kZeroBits);
    if constexpr (kOffset == Offset::kMinusMin) {
      in.addend = _mm512_sub_epi32(_mm512_setzero_si512(), in.addend);
    }
    return in;
  }

  static Acc Step(const Weights& w, const Input& x, Acc acc) {
    __m512i lanes = AddNeighbours(Dot::Pair(w.q[0], x.q[0], w.q[1], x.q[1]),
                                  Dot::Pair(w.q[2], x.q[2], w.q[3], x.q[3]));
    if constexpr (kHasMin) {
      lanes = _mm512_mask_add_epi32(x.addend, 0x5555, lanes, SwapPairs(lanes));
    } else if constexpr (kOffset == Offset::kZeroPoint) {
      lanes = _mm512_sub_epi32(lanes, x.addend);
    }
    return Add(lanes, w, x.d, acc);
  }
};

// Formats with blocks of 32; a step has eight.
template <class Block>
struct Block32 {
  static constexpr size_t kBlockBytes = sizeof(Block);
  static constexpr size_t kBlockElems = kBlock;
  static constexpr size_t kStepBlocks = 8;

  // The first two half-precision numbers of each block. The second is only a
  // number for formats with d and m.
  static __m512 Heads(const std::byte* blocks) {
    __m256i heads = _mm256_set1_epi32(static_cast<int>(LoadU32(blocks)));
    for (int b = 1; b < 8; ++b) {
      const uint32_t head = LoadU32(blocks + b * sizeof(Block));
      heads = _mm256_mask_set1_epi32(heads, static_cast<__mmask8>(1 << b),
                                     static_cast<int>(head));
    }
    return _mm512_cvtph_ps(heads);
  }

  // d for both lanes of its block.
  static __m512 Scales(const std::byte* blocks) {
    return _mm512_moveldup_ps(Heads(blocks));
  }

  // 16 bytes from each of the blocks 0, 2, 4, 6.
  static __m512i Gather16(const std::byte* p) {
    __m512i v = _mm512_castsi128_si512(Load128(p));
    v = _mm512_inserti32x4(v, Load128(p + 2 * sizeof(Block)), 1);
    v = _mm512_inserti32x4(v, Load128(p + 4 * sizeof(Block)), 2);
    return _mm512_inserti32x4(v, Load128(p + 6 * sizeof(Block)), 3);
  }

  template <class Dot>
  static void UnpackNibbles(const std::byte* blocks, __m512i q[4]) {
    const std::byte* qs = blocks + offsetof(Block, qs);
    const __m512i even = Gather16(qs);
    const __m512i odd = Gather16(qs + sizeof(Block));
    q[0] = LowNibbles(even);
    q[1] = Dot::HighNibbles(even);
    q[2] = LowNibbles(odd);
    q[3] = Dot::HighNibbles(odd);
  }

  // The bits of blocks 0, 2, 4, 6: q[0] gets those of the first halves.
  static void AddFifthBits(const std::byte* qh, __m512i q[2]) {
    const uint64_t a = LoadU32(qh);
    const uint64_t b = LoadU32(qh + 2 * sizeof(Block));
    const uint64_t c = LoadU32(qh + 4 * sizeof(Block));
    const uint64_t d = LoadU32(qh + 6 * sizeof(Block));
    const __m512i sixteen = _mm512_set1_epi8(16);
    const __mmask64 low =
        (a & 0xFFFF) | (b & 0xFFFF) << 16 | (c & 0xFFFF) << 32 | d << 48;
    const __mmask64 high =
        a >> 16 | (b >> 16) << 16 | (c >> 16) << 32 | (d >> 16) << 48;
    q[0] = _mm512_mask_add_epi8(q[0], low, q[0], sixteen);
    q[1] = _mm512_mask_add_epi8(q[1], high, q[1], sixteen);
  }

  template <class Dot>
  static void UnpackFiveBits(const std::byte* blocks, __m512i q[4]) {
    UnpackNibbles<Dot>(blocks, q);
    AddFifthBits(blocks + offsetof(Block, qh), q);
    AddFifthBits(blocks + offsetof(Block, qh) + sizeof(Block), q + 2);
  }
};

template <class Dot>
struct Q4_0 : Block32<BlockQ4_0>, Paired<Dot, Offset::kZeroPoint, 3> {
  // Eight blocks of 18 bytes in two times 72: quants of the even blocks begin
  // at multiples of four bytes behind byte 2, those of the odd ones behind
  // byte 8, so that one permutation of 32-bit lanes collects each.
  static StepWeights Unpack(const std::byte* blocks) {
    constexpr size_t kHalf = 4 * sizeof(BlockQ4_0);
    const __m512i even = _mm512_permutex2var_epi32(
        Load512(blocks + 2),
        _mm512_setr_epi32(0, 1, 2, 3, 9, 10, 11, 12, 16, 17, 18, 19, 25, 26, 27,
                          28),
        Load512(blocks + kHalf + 2));
    const __m512i odd = _mm512_permutex2var_epi32(
        Load512(blocks + 8),
        _mm512_setr_epi32(3, 4, 5, 6, 12, 13, 14, 15, 19, 20, 21, 22, 28, 29,
                          30, 31),
        Load512(blocks + kHalf + 8));
    StepWeights w;
    w.q[0] = LowNibbles(even);
    w.q[1] = Dot::HighNibbles(even);
    w.q[2] = LowNibbles(odd);
    w.q[3] = Dot::HighNibbles(odd);
    const __m512i words = _mm512_castsi256_si512(_mm256_setr_epi16(
        0, 0, 9, 9, 18, 18, 27, 27, 0, 0, 9, 9, 18, 18, 27, 27));
    const __m512i heads = _mm512_mask_permutexvar_epi16(
        _mm512_permutexvar_epi16(words, Load512(blocks)), 0xFF00, words,
        Load512(blocks + kHalf));
    w.scale = _mm512_cvtph_ps(_mm512_castsi512_si256(heads));
    return w;
  }
};

template <class Dot>
struct Q4_1 : Block32<BlockQ4_1>, Paired<Dot, Offset::kPlusMin> {
  static StepWeights Unpack(const std::byte* blocks) {
    StepWeights w;
    Q4_1::template UnpackNibbles<Dot>(blocks, w.q);
    w.scale = Q4_1::Heads(blocks);
    return w;
  }
};

template <class Dot>
struct Q5_0 : Block32<BlockQ5_0>, Paired<Dot, Offset::kZeroPoint, 4> {
  static StepWeights Unpack(const std::byte* blocks) {
    StepWeights w;
    Q5_0::template UnpackFiveBits<Dot>(blocks, w.q);
    w.scale = Q5_0::Scales(blocks);
    return w;
  }
};

template <class Dot>
struct Q5_1 : Block32<BlockQ5_1>, Paired<Dot, Offset::kPlusMin> {
  static StepWeights Unpack(const std::byte* blocks) {
    StepWeights w;
    Q5_1::template UnpackFiveBits<Dot>(blocks, w.q);
    w.scale = Q5_1::Heads(blocks);
    return w;
  }
};

// kFlip is added without carry to each quant.
template <class Dot, int8_t kFlip, Offset kOffset, int kZeroBits>
struct Q8_0 : Block32<BlockQ8_0>, Paired<Dot, kOffset, kZeroBits> {
  // Blocks b and b + 2.
  static __m512i LoadTwo(const std::byte* blocks, size_t b) {
    const std::byte* qs =
        blocks + b * sizeof(BlockQ8_0) + offsetof(BlockQ8_0, qs);
    return _mm512_xor_si512(
        _mm512_inserti64x4(_mm512_castsi256_si512(Load256(qs)),
                           Load256(qs + 2 * sizeof(BlockQ8_0)), 1),
        _mm512_set1_epi8(kFlip));
  }

  static StepWeights Unpack(const std::byte* blocks) {
    StepWeights w;
    for (size_t parity = 0; parity < 2; ++parity) {
      const __m512i low = LoadTwo(blocks, parity);
      const __m512i high = LoadTwo(blocks, parity + 4);
      w.q[2 * parity] = EvenLanes(low, high);
      w.q[2 * parity + 1] = OddLanes(low, high);
    }
    w.scale = Q8_0::Scales(blocks);
    return w;
  }
};

}  // namespace
}  // namespace thermocline::kernels

#endif  // AVX-512
#endif  // THERMOCLINE_KERNELS_CPU_INT8_AVX512_H_
