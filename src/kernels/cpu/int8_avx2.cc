// Int8 matrix products for AVX2 with FMA and F16C.
//
// Work goes in parts of 128 quants in four registers; a step is one part, or
// two for the blocks of 256. Dot products of bytes leave sums of four in 32-bit
// lanes; the work is to bring sums and scales together without reducing each
// block on its own. A part ends as eight lanes of integers that meet eight
// scales in one fused multiply-add. Two arrangements do that:
//
// Paired (all but Q6_K). Register "even 0" has the first halves of blocks 0 and
// 2 of 32 quants, "even 1" their second halves, and "odd" likewise blocks 1 and
// 3. The two halves add up in the multiplication, and one addition of
// neighbours leaves two lanes per block, in order. Formats with a minimum then
// use one lane of the two for the activation sum that belongs to it: lanes (dot
// 0, sum 0, dot 1, sum 1, ...) meet (d 0, m 0, d 1, m 1, ...), the order in
// which Q4_1 and Q5_1 have them.
//
// Plain (Q6_K, with a scale per 16). A register is a block of 32; lane 4h + b
// gets the sum of half h of block b.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/int8_driver.h"
#include "kernels/cpu/int8_matmul.h"
#include "kernels/kernels.h"
#include "tensor/blocks.h"

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

inline __m256i LowNibbles(__m256i v) {
  return _mm256_and_si256(v, _mm256_set1_epi8(0x0F));
}

inline __m256i HighNibbles(__m256i v) {
  return LowNibbles(_mm256_srli_epi16(v, 4));
}

// v with the 32-bit lanes of each pair exchanged.
inline __m256i SwapPairs(__m256i v) {
  return _mm256_shuffle_epi32(v, _MM_SHUFFLE(2, 3, 0, 1));
}

inline __m256i AddPairs(__m256i v) {
  return _mm256_madd_epi16(v, _mm256_set1_epi16(1));
}

// Sums of four products of bytes: One of one product, Pair of two. Sums stay in
// 16 bits: two products of quants up to 63, or four of quants up to 31, with
// activations up to 127 in magnitude.
struct UnsignedDot {
  static __m256i One(__m256i w, __m256i x) {
    return AddPairs(_mm256_maddubs_epi16(w, x));
  }
  static __m256i Pair(__m256i w0, __m256i x0, __m256i w1, __m256i x1) {
    return AddPairs(_mm256_add_epi16(_mm256_maddubs_epi16(w0, x0),
                                     _mm256_maddubs_epi16(w1, x1)));
  }
};

// The sign moves from the weight to the activation, which is never -128. A
// weight of -128 becomes 128: two products still fit in 16 bits, four do not.
struct SignedDot {
  static __m256i One(__m256i w, __m256i x) {
    return AddPairs(
        _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w)));
  }
  static __m256i Pair(__m256i w0, __m256i x0, __m256i w1, __m256i x1) {
    return _mm256_add_epi32(One(w0, x0), One(w1, x1));
  }
};

struct PartWeights {
  __m256i q[4];
  __m256 scale;
};

// Prepared activations: `addend` is what comes to the integers of a part.
struct PartActivations {
  __m256i q[4];
  __m256i addend;
  __m256 d;
};

// How quants of a paired format relate to its weights.
enum class Offset {
  kNone,
  kZeroPoint,  // quants are stored too large by 1 << kZeroBits
  kPlusMin,    // weights are d * q + m
  kMinusMin,   // weights are d * q - m
};

template <int kParts>
struct Avx2Acc {
  struct Weights {
    PartWeights parts[kParts];
  };
  struct Input {
    PartActivations parts[kParts];
  };
  using Acc = __m256;

  static Acc Zero() { return _mm256_setzero_ps(); }

  static float Reduce(Acc acc) {
    __m128 sum =
        _mm_add_ps(_mm256_castps256_ps128(acc), _mm256_extractf128_ps(acc, 1));
    sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
    return _mm_cvtss_f32(_mm_add_ss(sum, _mm_movehdup_ps(sum)));
  }

  static Acc Add(__m256i lanes, const PartWeights& w, const PartActivations& x,
                 Acc acc) {
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(lanes),
                           _mm256_mul_ps(w.scale, x.d), acc);
  }
};

template <class Dot, int kParts, Offset kOffset, int kZeroBits = 0>
struct Paired : Avx2Acc<kParts> {
  using typename Avx2Acc<kParts>::Weights;
  using typename Avx2Acc<kParts>::Input;
  using typename Avx2Acc<kParts>::Acc;
  static constexpr bool kHasMin =
      kOffset == Offset::kPlusMin || kOffset == Offset::kMinusMin;

  static Input Prepare(const StepInput& x) {
    Input in;
    for (int p = 0; p < kParts; ++p) {
      PartActivations& part = in.parts[p];
      for (int parity = 0; parity < 2; ++parity) {
        const int8_t* q = x.q + 128 * p + 32 * parity;
        part.q[2 * parity] = LoadTwo128(q, q + 64);
        part.q[2 * parity + 1] = LoadTwo128(q + 16, q + 80);
      }
      const __m128 d = _mm_loadu_ps(x.d + 4 * p);
      part.d = _mm256_set_m128(_mm_unpackhi_ps(d, d), _mm_unpacklo_ps(d, d));
      const __m256i sums = _mm256_cvtepi16_epi32(Load128(x.sum + 8 * p));
      part.addend = kHasMin ? _mm256_add_epi32(sums, SwapPairs(sums))
                            : _mm256_slli_epi32(sums, kZeroBits);
      if constexpr (kOffset == Offset::kMinusMin) {
        part.addend = _mm256_sub_epi32(_mm256_setzero_si256(), part.addend);
      }
    }
    return in;
  }

  static Acc Step(const Weights& weights, const Input& input, Acc acc) {
    for (int p = 0; p < kParts; ++p) {
      const PartWeights& w = weights.parts[p];
      const PartActivations& x = input.parts[p];
      __m256i lanes =
          _mm256_hadd_epi32(Dot::Pair(w.q[0], x.q[0], w.q[1], x.q[1]),
                            Dot::Pair(w.q[2], x.q[2], w.q[3], x.q[3]));
      if constexpr (kHasMin) {
        lanes = _mm256_blend_epi32(_mm256_add_epi32(lanes, SwapPairs(lanes)),
                                   x.addend, 0xAA);
      } else if constexpr (kOffset == Offset::kZeroPoint) {
        lanes = _mm256_sub_epi32(lanes, x.addend);
      }
      acc = Paired::Add(lanes, w, x, acc);
    }
    return acc;
  }
};

// Formats with blocks of 32; a step has four.
template <class Block>
struct Block32 {
  static constexpr size_t kBlockBytes = sizeof(Block);
  static constexpr size_t kBlockElems = kBlock;
  static constexpr size_t kStepBlocks = 4;

  // The first two half-precision numbers of each block. The second is only a
  // number for formats with d and m.
  static __m256 Heads(const std::byte* blocks) {
    const auto head = [blocks](size_t b) {
      return static_cast<int>(LoadU32(blocks + b * sizeof(Block)));
    };
    return _mm256_cvtph_ps(_mm_setr_epi32(head(0), head(1), head(2), head(3)));
  }

  // d for both lanes of its block.
  static __m256 Scales(const std::byte* blocks) {
    return _mm256_moveldup_ps(Heads(blocks));
  }

  static void UnpackNibbles(const std::byte* blocks, __m256i q[4]) {
    for (int parity = 0; parity < 2; ++parity) {
      const std::byte* qs =
          blocks + parity * sizeof(Block) + offsetof(Block, qs);
      const __m256i bytes = LoadTwo128(qs, qs + 2 * sizeof(Block));
      q[2 * parity] = LowNibbles(bytes);
      q[2 * parity + 1] = HighNibbles(bytes);
    }
  }

  // Sets bit 4 of q[0] where one of the low 16 bits of the first word is set,
  // then the second word, and of q[1] by their high 16 bits.
  static void AddFifthBits(uint32_t first, uint32_t second, __m256i q[2]) {
    const __m256i words =
        _mm256_setr_m128i(_mm_set1_epi32(static_cast<int>(first)),
                          _mm_set1_epi32(static_cast<int>(second)));
    const __m256i bit =
        _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
    const __m256i low_order =
        _mm256_broadcastsi128_si256(_mm_set_epi64x(0x0101010101010101, 0));
    const __m256i two = _mm256_set1_epi8(2);
    const __m256i sixteen = _mm256_set1_epi8(16);
    __m256i order = low_order;
    for (int half = 0; half < 2; ++half) {
      const __m256i spread = _mm256_shuffle_epi8(words, order);
      const __m256i hit = _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit), bit);
      q[half] = _mm256_or_si256(q[half], _mm256_and_si256(hit, sixteen));
      order = _mm256_add_epi8(order, two);
    }
  }

  static void UnpackFiveBits(const std::byte* blocks, __m256i q[4]) {
    UnpackNibbles(blocks, q);
    for (int parity = 0; parity < 2; ++parity) {
      const std::byte* qh =
          blocks + parity * sizeof(Block) + offsetof(Block, qh);
      AddFifthBits(LoadU32(qh), LoadU32(qh + 2 * sizeof(Block)),
                   q + 2 * parity);
    }
  }
};

struct Q8_0 : Block32<BlockQ8_0>, Paired<SignedDot, 1, Offset::kNone> {
  static Weights Unpack(const std::byte* blocks) {
    Weights w;
    for (int parity = 0; parity < 2; ++parity) {
      const std::byte* qs =
          blocks + parity * kBlockBytes + offsetof(BlockQ8_0, qs);
      const std::byte* next = qs + 2 * kBlockBytes;
      w.parts[0].q[2 * parity] = LoadTwo128(qs, next);
      w.parts[0].q[2 * parity + 1] = LoadTwo128(qs + 16, next + 16);
    }
    w.parts[0].scale = Scales(blocks);
    return w;
  }
};

struct Q4_0 : Block32<BlockQ4_0>,
              Paired<UnsignedDot, 1, Offset::kZeroPoint, 3> {
  static Weights Unpack(const std::byte* blocks) {
    Weights w;
    UnpackNibbles(blocks, w.parts[0].q);
    w.parts[0].scale = Scales(blocks);
    return w;
  }
};

struct Q4_1 : Block32<BlockQ4_1>, Paired<UnsignedDot, 1, Offset::kPlusMin> {
  static Weights Unpack(const std::byte* blocks) {
    Weights w;
    UnpackNibbles(blocks, w.parts[0].q);
    w.parts[0].scale = Heads(blocks);
    return w;
  }
};

struct Q5_0 : Block32<BlockQ5_0>,
              Paired<UnsignedDot, 1, Offset::kZeroPoint, 4> {
  static Weights Unpack(const std::byte* blocks) {
    Weights w;
    UnpackFiveBits(blocks, w.parts[0].q);
    w.parts[0].scale = Scales(blocks);
    return w;
  }
};

struct Q5_1 : Block32<BlockQ5_1>, Paired<UnsignedDot, 1, Offset::kPlusMin> {
  static Weights Unpack(const std::byte* blocks) {
    Weights w;
    UnpackFiveBits(blocks, w.parts[0].q);
    w.parts[0].scale = Heads(blocks);
    return w;
  }
};

// Formats with blocks of 256; a step is one block, two parts.
template <class Block>
struct Block256 {
  static constexpr size_t kBlockBytes = sizeof(Block);
  static constexpr size_t kBlockElems = kSuperBlock;
  static constexpr size_t kStepBlocks = 1;
};

// d * scale and dmin * min of each sub-block of Q4_K and Q5_K in turn. Their
// blocks begin with d, dmin and the twelve bytes that pack eight scales and
// eight minima of six bits.
inline void UnpackScales(const std::byte* block, PartWeights parts[2]) {
  const __m128i head = Load128(block);
  // The four words are scales 0-3 and 4-7, minima 0-3 and 4-7. The first and
  // third are the low six bits of bytes 0-3 and 4-7; the others have their low
  // four bits in bytes 8-11, the upper two on top of the first and third.
  const __m128i low = _mm_and_si128(
      _mm_srlv_epi32(_mm_shuffle_epi32(head, _MM_SHUFFLE(3, 2, 3, 1)),
                     _mm_setr_epi32(0, 0, 0, 4)),
      _mm_setr_epi32(0x3F3F3F3F, 0x0F0F0F0F, 0x3F3F3F3F, 0x0F0F0F0F));
  const __m128i high = _mm_and_si128(
      _mm_srli_epi32(_mm_shuffle_epi32(head, _MM_SHUFFLE(2, 2, 1, 1)), 2),
      _mm_setr_epi32(0, 0x30303030, 0, 0x30303030));
  const __m128i in_turn =
      _mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
  const __m128i six_bits = _mm_shuffle_epi8(_mm_or_si128(low, high), in_turn);
  const __m256 factors = _mm256_castpd_ps(
      _mm256_broadcastsd_pd(_mm_castps_pd(_mm_cvtph_ps(head))));
  const __m128i halves[2] = {six_bits, _mm_srli_si128(six_bits, 8)};
  for (int p = 0; p < 2; ++p) {
    parts[p].scale = _mm256_mul_ps(
        _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(halves[p])), factors);
  }
}

// Q4_K and Q5_K: 64 bytes, of which each 32 have the low bits of an even
// sub-block in their low nibbles, those of the next in the high ones.
inline void UnpackSubBlocks(const std::byte* qs, __m256i q[4]) {
  for (int half = 0; half < 2; ++half) {
    const __m256i bytes = LoadTwo128(qs + 16 * half, qs + 16 * half + 32);
    q[half] = LowNibbles(bytes);
    q[2 + half] = HighNibbles(bytes);
  }
}

struct Q4_K : Block256<BlockQ4_K>, Paired<UnsignedDot, 2, Offset::kMinusMin> {
  static Weights Unpack(const std::byte* block) {
    Weights w;
    for (int p = 0; p < 2; ++p) {
      UnpackSubBlocks(block + offsetof(BlockQ4_K, qs) + 64 * p, w.parts[p].q);
    }
    UnpackScales(block, w.parts);
    return w;
  }
};

struct Q5_K : Block256<BlockQ5_K>, Paired<UnsignedDot, 2, Offset::kMinusMin> {
  static Weights Unpack(const std::byte* block) {
    Weights w;
    const std::byte* qh_bytes = block + offsetof(BlockQ5_K, qh);
    for (int p = 0; p < 2; ++p) {
      __m256i* q = w.parts[p].q;
      UnpackSubBlocks(block + offsetof(BlockQ5_K, qs) + 64 * p, q);
      for (int half = 0; half < 2; ++half) {
        // Bit 4p of a byte is for the even sub-block of the first 16 bytes, the
        // next bit for the odd one; those of the other 16 bytes are two higher.
        const __m256i qh = _mm256_srlv_epi32(
            _mm256_broadcastsi128_si256(Load128(qh_bytes + 16 * half)),
            _mm256_setr_epi32(4 * p, 4 * p, 4 * p, 4 * p, 4 * p + 2, 4 * p + 2,
                              4 * p + 2, 4 * p + 2));
        const __m256i sixteen = _mm256_set1_epi8(16);
        q[half] = _mm256_or_si256(
            q[half], _mm256_and_si256(_mm256_slli_epi16(qh, 4), sixteen));
        q[2 + half] = _mm256_or_si256(
            q[2 + half], _mm256_and_si256(_mm256_slli_epi16(qh, 3), sixteen));
      }
    }
    UnpackScales(block, w.parts);
    return w;
  }
};

struct Q6_K : Block256<BlockQ6_K>, Avx2Acc<2> {
  // The sums of 16 activations of four blocks, in lane order.
  static __m256i LaneOrderSums(const int16_t sum[8]) {
    const __m128i order =
        _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    return _mm256_cvtepi16_epi32(_mm_shuffle_epi8(Load128(sum), order));
  }

  static Input Prepare(const StepInput& x) {
    Input in;
    for (int p = 0; p < 2; ++p) {
      PartActivations& part = in.parts[p];
      for (int i = 0; i < 4; ++i) {
        part.q[i] = Load256(x.q + 128 * p + 32 * i);
      }
      const __m128 d = _mm_loadu_ps(x.d + 4 * p);
      part.d = _mm256_set_m128(d, d);
      part.addend = _mm256_slli_epi32(LaneOrderSums(x.sum + 8 * p), 5);
    }
    return in;
  }

  static Acc Step(const Weights& weights, const Input& input, Acc acc) {
    for (int p = 0; p < 2; ++p) {
      const PartWeights& w = weights.parts[p];
      const PartActivations& x = input.parts[p];
      __m256i fours[4];
      for (int i = 0; i < 4; ++i) fours[i] = UnsignedDot::One(w.q[i], x.q[i]);
      const __m256i lanes =
          _mm256_hadd_epi32(_mm256_hadd_epi32(fours[0], fours[1]),
                            _mm256_hadd_epi32(fours[2], fours[3]));
      acc = Add(_mm256_sub_epi32(lanes, x.addend), w, x, acc);
    }
    return acc;
  }

  // Low four bits from `ql`, bits 4 and 5 from `qh`; others are ignored.
  static __m256i Join(__m256i ql, __m256i qh) {
    return _mm256_or_si256(LowNibbles(ql),
                           _mm256_and_si256(qh, _mm256_set1_epi8(0x30)));
  }

  static Weights Unpack(const std::byte* block) {
    Weights w;
    uint16_t d16;
    __builtin_memcpy(&d16, block + offsetof(BlockQ6_K, d), sizeof(d16));
    const __m256 d = _mm256_set1_ps(_cvtsh_ss(d16));
    const __m128i scales = Load128(block + offsetof(BlockQ6_K, scales));
    const __m128i in_lane_order = _mm_shuffle_epi8(
        scales,
        _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15));
    const __m128i halves[2] = {in_lane_order, _mm_srli_si128(in_lane_order, 8)};
    for (int p = 0; p < 2; ++p) {
      const std::byte* ql = block + offsetof(BlockQ6_K, ql) + 64 * p;
      const __m256i ql0 = Load256(ql);
      const __m256i ql1 = Load256(ql + 32);
      const __m256i qh = Load256(block + offsetof(BlockQ6_K, qh) + 32 * p);
      PartWeights& part = w.parts[p];
      part.q[0] = Join(ql0, _mm256_slli_epi16(qh, 4));
      part.q[1] = Join(ql1, _mm256_slli_epi16(qh, 2));
      part.q[2] = Join(_mm256_srli_epi16(ql0, 4), qh);
      part.q[3] = Join(_mm256_srli_epi16(ql1, 4), _mm256_srli_epi16(qh, 2));
      part.scale =
          _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(halves[p])));
    }
    return w;
  }
};

}  // namespace

void FillInt8MatMulsAvx2(KernelTable& table) {
  Int8MatMul<Q8_0>::Fill(DType::kQ8_0, table);
  Int8MatMul<Q4_0>::Fill(DType::kQ4_0, table);
  Int8MatMul<Q4_1>::Fill(DType::kQ4_1, table);
  Int8MatMul<Q5_0>::Fill(DType::kQ5_0, table);
  Int8MatMul<Q5_1>::Fill(DType::kQ5_1, table);
  Int8MatMul<Q4_K>::Fill(DType::kQ4_K, table);
  Int8MatMul<Q5_K>::Fill(DType::kQ5_K, table);
  Int8MatMul<Q6_K>::Fill(DType::kQ6_K, table);
}

}  // namespace thermocline::kernels
