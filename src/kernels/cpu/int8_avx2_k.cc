// Int8 matrix products for AVX2 of the formats with blocks of 256. A step is
// one block.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/int8_avx2.h"
#include "kernels/cpu/int8_driver.h"
#include "kernels/cpu/int8_matmul.h"
#include "kernels/kernels.h"
#include "tensor/blocks.h"

namespace thermocline::kernels {
namespace {

template <class Block>
struct Block256 {
  static constexpr size_t kBlockBytes = sizeof(Block);
  static constexpr size_t kBlockElems = kSuperBlock;
  static constexpr size_t kStepBlocks = 1;
};

// Q4_K and Q5_K. Register b has sub-block b: of 32 bytes the low nibbles are an
// even one and the high nibbles the next. Scales and minima, of six bits, come
// in where sums of neighbours go from 16 to 32 bits, instead of ones.
template <class Block, bool kFifthBit>
struct SubBlocks32 : Block256<Block> {
  struct Input {
    __m256i q[8];
    __m256i sum;  // of each 16
    __m256 d;
  };

  static Input Prepare(const StepInput& x) {
    Input in;
    for (size_t b = 0; b < 8; ++b) in.q[b] = Load256(x.q + 32 * b);
    in.sum = Load256(x.sum);
    in.d = _mm256_loadu_ps(x.d);
    return in;
  }

  // `six_bits` has the scales, then the minima, in each half.
  struct Scales {
    __m256i six_bits;
    __m256 d;
    __m256 d_min;
  };

  static Scales UnpackScales(const std::byte* block) {
    // (Seen through, it would be shuffled in one half and then copied.)
    const __m256i head =
        InRegister(_mm256_broadcastsi128_si256(Load128(block)));
    const __m256 factors =
        _mm256_cvtph_ps(_mm_set1_epi32(static_cast<int>(LoadU32(block))));
    return {SixBits(head), _mm256_moveldup_ps(factors),
            _mm256_movehdup_ps(factors)};
  }

  static QuantPair UnpackPair(const std::byte* block, size_t i) {
    const __m256i bytes = Load256(block + offsetof(Block, qs) + 32 * i);
    QuantPair pair = {LowNibbles(bytes), HighNibbles(bytes)};
    if constexpr (kFifthBit) {
      // Bit b of these bytes belongs to sub-block b.
      const __m256i bits = Load256(block + offsetof(Block, qh));
      const auto sixteen_where = [bits](int b) {
        const __m256i at_four = b < 4 ? _mm256_slli_epi16(bits, 4 - b)
                                      : _mm256_srli_epi16(bits, b - 4);
        return _mm256_and_si256(at_four, _mm256_set1_epi8(16));
      };
      const int b = 2 * static_cast<int>(i);
      pair.first = _mm256_or_si256(pair.first, sixteen_where(b));
      pair.second = _mm256_or_si256(pair.second, sixteen_where(b + 1));
    }
    return pair;
  }

  template <size_t kRows, class Weights>
  [[gnu::always_inline]] static void Add(const Weights& w, const Input& x,
                                         __m256 (&acc)[kRows]) {
    __m256i fours[2][kRows];
    MeetParts(
        [&](size_t r, size_t i)
            __attribute__((always_inline)) { return Words64(w, r, i, x); },
        Meet32<Words>, fours);
#pragma clang loop unroll(full)
    for (size_t r = 0; r < kRows; ++r) {
      const Scales scales = w.Scales(r);
      const __m256i sums = ScaledSums(fours[0][r], fours[1][r], scales);
      const __m256i minima =
          _mm256_madd_epi16(Spread(scales.six_bits, 8, 12), x.sum);
      const __m256 dots =
          _mm256_fnmadd_ps(_mm256_cvtepi32_ps(minima), scales.d_min,
                           _mm256_mul_ps(_mm256_cvtepi32_ps(sums), scales.d));
      acc[r] = _mm256_fmadd_ps(dots, x.d, acc[r]);
    }
  }

  // Twice each, as words: four of the bytes from `low` on, then from `high` on.
  static __m256i Spread(__m256i bytes, int low, int high) {
    const __m256i order = _mm256_setr_epi8(
        0, -1, 0, -1, 1, -1, 1, -1, 2, -1, 2, -1, 3, -1, 3, -1,  //
        0, -1, 0, -1, 1, -1, 1, -1, 2, -1, 2, -1, 3, -1, 3, -1);
    // Bytes of -1 stay negative, which makes zeros.
    const __m256i from =
        _mm256_setr_m128i(_mm_set1_epi16(static_cast<int16_t>(low)),
                          _mm_set1_epi16(static_cast<int16_t>(high)));
    return _mm256_shuffle_epi8(bytes, _mm256_add_epi8(order, from));
  }

 private:
  // In each half: sums of four products of two sub-blocks.
  template <class Weights>
  [[gnu::always_inline]] static __m256i Words64(const Weights& w, size_t r,
                                                size_t i, const Input& x) {
    const QuantPair pair = w.Pair(r, i);
    return Meet64<Words>(_mm256_maddubs_epi16(pair.first, x.q[2 * i]),
                         _mm256_maddubs_epi16(pair.second, x.q[2 * i + 1]));
  }

  static __m256i ScaledSums(__m256i first, __m256i second,
                            const Scales& scales) {
    if constexpr (kFifthBit) {
      // 8 * 31 * 127 < 2^15, but not twice that.
      return MeetLanes<Ints>(
          _mm256_madd_epi16(first, Spread(scales.six_bits, 0, 0)),
          _mm256_madd_epi16(second, Spread(scales.six_bits, 4, 4)));
    } else {
      return _mm256_madd_epi16(MeetLanes<Words>(first, second),
                               Spread(scales.six_bits, 0, 4));
    }
  }
};

// Several rows come in pairs: one's numbers in the low half of a register, the
// other's in the high half. That is one head to unpack instead of two, and half
// the registers to add up: 0.87 of the time. (Q5_K has too much to hold for
// it.)
struct Q4_K : SubBlocks32<BlockQ4_K, false> {
  // One block of each of two rows.
  struct BlockPair {
    const std::byte* low;
    const std::byte* high;

    // Sums of four products of the sub-blocks 2i and 2i + 1.
    [[gnu::always_inline]] __m256i Words64(size_t i, const Input& x) const {
      const size_t at = offsetof(BlockQ4_K, qs) + 32 * i;
      const __m256i bytes = InRegister(Load256(low + at));
      const __m256i first =
          _mm256_inserti128_si256(bytes, Load128(high + at), 1);
      const __m256i second =
          _mm256_permute2x128_si256(bytes, Load256(high + at), 0x31);
      return Meet64<Words>(
          Dot(LowNibbles(first), LowNibbles(second), x.q[2 * i]),
          Dot(HighNibbles(first), HighNibbles(second), x.q[2 * i + 1]));
    }

    // Adds what the sums of the sub-blocks 0-3 and 4-7 come to.
    [[gnu::always_inline]] void Add(__m256i first, __m256i second,
                                    const Input& x, __m256& first_acc,
                                    __m256& second_acc) const {
      const __m256i six_bits = SixBits(LoadTwo128(low, high));
      const __m256 factors =
          _mm256_cvtph_ps(_mm_unpacklo_epi64(Load128(low), Load128(high)));
      const auto scaled = [six_bits](__m256i words, int from) {
        return _mm256_cvtepi32_ps(
            _mm256_madd_epi16(words, Spread(six_bits, from, from)));
      };
      const auto* d = reinterpret_cast<const __m128*>(&x.d);
      const auto added = [&](__m256i words, int half, __m256 acc) {
        const __m256 sums = _mm256_mul_ps(scaled(words, 4 * half),
                                          _mm256_permute_ps(factors, 0x00));
        const __m256 dots =
            _mm256_fnmadd_ps(scaled(Half(x.sum, half), 8 + 4 * half),
                             _mm256_permute_ps(factors, 0x55), sums);
        return _mm256_fmadd_ps(dots, _mm256_broadcast_ps(d + half), acc);
      };
      const __m256 new_first = added(first, 0, first_acc);
      second_acc = added(second, 1, second_acc);
      first_acc = new_first;
    }

   private:
    // Half an input, for either row.
    static __m256i Half(const __m256i& input, size_t half) {
      return _mm256_broadcastsi128_si256(
          Load128(reinterpret_cast<const std::byte*>(&input) + 16 * half));
    }
    static __m256i Dot(__m256i first, __m256i second, const __m256i& q) {
      return _mm256_add_epi16(_mm256_maddubs_epi16(first, Half(q, 0)),
                              _mm256_maddubs_epi16(second, Half(q, 1)));
    }
  };

  // The sums of kRows rows, two to a register.
  template <size_t kRows>
    requires(kRows % 2 == 0)
  class Pairs {
   public:
    explicit Pairs(const __m256* acc) {
      for (size_t p = 0; p < kPairs; ++p) {
        first_[p] = _mm256_permute2f128_ps(acc[2 * p], acc[2 * p + 1], 0x20);
        second_[p] = _mm256_permute2f128_ps(acc[2 * p], acc[2 * p + 1], 0x31);
      }
    }

    template <class PrefetchRow>
    [[gnu::always_inline]] void Step(const std::byte* const (&rows)[kRows],
                                     size_t offset, const Input& x,
                                     const PrefetchRow& prefetch) {
      for (size_t r = 0; r < kRows; ++r) prefetch(r);
      const auto pair = [&](size_t p) __attribute__((always_inline)) {
        return BlockPair{rows[2 * p] + offset, rows[2 * p + 1] + offset};
      };
      __m256i fours[2][kPairs];
      MeetParts(
          [&](size_t p, size_t i)
              __attribute__((always_inline)) { return pair(p).Words64(i, x); },
          Meet32<Words>, fours);
      // In registers they would displace what a step has at hand.
      asm("" : "+m"(first_), "+m"(second_));
#pragma clang loop unroll(full)
      for (size_t p = 0; p < kPairs; ++p) {
        pair(p).Add(fours[0][p], fours[1][p], x, first_[p], second_[p]);
      }
    }

    void Store(__m256* acc) const {
      for (size_t p = 0; p < kPairs; ++p) {
        acc[2 * p] = _mm256_permute2f128_ps(first_[p], second_[p], 0x20);
        acc[2 * p + 1] = _mm256_permute2f128_ps(first_[p], second_[p], 0x31);
      }
    }

   private:
    static constexpr size_t kPairs = kRows / 2;
    __m256 first_[kPairs];   // of the sub-blocks 0-3
    __m256 second_[kPairs];  // and 4-7
  };
};

struct Q5_K : SubBlocks32<BlockQ5_K, true> {};

// Register i has the elements from 32i on. Scales are for 16: lane 4h + b of a
// half of the block is for half h of its 32 number b.
struct Q6_K : Block256<BlockQ6_K> {
  struct Input {
    __m256i q[8];
    __m256i zero[2];  // what the zero point adds to the sums
    __m256 d[2];
  };

  static Input Prepare(const StepInput& x) {
    Input in;
    for (size_t i = 0; i < 8; ++i) in.q[i] = Load256(x.q + 32 * i);
    const __m128i order =
        _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    for (size_t p = 0; p < 2; ++p) {
      const __m128i sums = _mm_shuffle_epi8(Load128(x.sum + 8 * p), order);
      in.zero[p] = _mm256_slli_epi32(_mm256_cvtepi16_epi32(sums), 5);
      const __m128 d = _mm_loadu_ps(x.d + 4 * p);
      in.d[p] = _mm256_set_m128(d, d);
    }
    return in;
  }

  struct Scales {
    __m256 parts[2];
  };

  static Scales UnpackScales(const std::byte* block) {
    uint16_t d16;
    __builtin_memcpy(&d16, block + offsetof(BlockQ6_K, d), sizeof(d16));
    const __m256 d = _mm256_cvtph_ps(_mm_set1_epi16(static_cast<int16_t>(d16)));
    const __m128i in_turn = _mm_shuffle_epi8(
        Load128(block + offsetof(BlockQ6_K, scales)),
        _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15));
    const auto part = [d](__m128i bytes) {
      return _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)));
    };
    return {{part(in_turn), part(_mm_srli_si128(in_turn, 8))}};
  }

  // Pairs 0 and 1 are of the first 128 elements.
  static QuantPair UnpackPair(const std::byte* block, size_t i) {
    const std::byte* ql = block + offsetof(BlockQ6_K, ql) + 64 * (i / 2);
    __m256i first = Load256(ql);
    __m256i second = Load256(ql + 32);
    __m256i qh = Load256(block + offsetof(BlockQ6_K, qh) + 32 * (i / 2));
    if (i % 2 == 0) {
      qh = _mm256_slli_epi16(qh, 2);
      return {Join(first, _mm256_slli_epi16(qh, 2)), Join(second, qh)};
    }
    return {Join(_mm256_srli_epi16(first, 4), qh),
            Join(_mm256_srli_epi16(second, 4), _mm256_srli_epi16(qh, 2))};
  }

  template <size_t kRows, class Weights>
  [[gnu::always_inline]] static void Add(const Weights& w, const Input& x,
                                         __m256 (&acc)[kRows]) {
    __m256i sums[2][kRows];
#pragma clang loop unroll(full)
    for (size_t p = 0; p < 2; ++p) {
      // Not in smaller stages: two pairs are made of the same bytes.
      for (size_t r = 0; r < kRows; ++r) {
        sums[p][r] =
            Meet32<Ints>(Twos(w, r, 2 * p, x), Twos(w, r, 2 * p + 1, x));
      }
    }
#pragma clang loop unroll(full)
    for (size_t r = 0; r < kRows; ++r) {
      const Scales scales = w.Scales(r);
      for (size_t p = 0; p < 2; ++p) {
        const __m256i dots = _mm256_sub_epi32(sums[p][r], x.zero[p]);
        acc[r] =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots),
                            _mm256_mul_ps(scales.parts[p], x.d[p]), acc[r]);
      }
    }
  }

 private:
  // In each half: two sums of eight products of each of two registers. Sums of
  // four hold in 16 bits: 4 * 63 * 127 < 2^15.
  template <class Weights>
  [[gnu::always_inline]] static __m256i Twos(const Weights& w, size_t r,
                                             size_t i, const Input& x) {
    const QuantPair pair = w.Pair(r, i);
    return AddPairs(
        Meet64<Words>(_mm256_maddubs_epi16(pair.first, x.q[2 * i]),
                      _mm256_maddubs_epi16(pair.second, x.q[2 * i + 1])));
  }

  // Low four bits from `ql`, bits 4 and 5 from `qh`; others are ignored.
  static __m256i Join(__m256i ql, __m256i qh) {
    return _mm256_or_si256(LowNibbles(ql),
                           _mm256_and_si256(qh, _mm256_set1_epi8(0x30)));
  }
};

}  // namespace

void FillInt8MatMulsAvx2K(bool prefetches_ahead, KernelTable& table) {
  FillAvx2Format<Q4_K>(DType::kQ4_K, prefetches_ahead, table);
  FillAvx2Format<Q5_K>(DType::kQ5_K, prefetches_ahead, table);
  FillAvx2Format<Q6_K>(DType::kQ6_K, prefetches_ahead, table);
}

}  // namespace thermocline::kernels
