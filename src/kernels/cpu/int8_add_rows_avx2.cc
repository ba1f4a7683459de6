// Sums of listed rows for AVX2, rounded as those of AVX-512 with VNNI are
// (int8_add_rows_avx512_vnni.cc).
//
// The nibbles of the same column of two rows lie side by side and meet two
// coefficients. What eight rows add to a column is at most 8 * 15 * 127, which
// a word of 16 bits holds: only the sum of a group is widened.
#include <immintrin.h>

#include "kernels/cpu/ahead.h"
#include "kernels/cpu/int8_add_rows.h"
#include "kernels/cpu/int8_add_rows_driver.h"
#include "kernels/cpu/int8_avx2.h"
#include "tensor/blocks.h"

namespace thermocline::kernels {
namespace {

constexpr size_t kStepElems = 256;
constexpr size_t kStepGroups = kStepElems / 32;  // of 32 elements
constexpr size_t kRows = kAddRowsGroup;
constexpr size_t kHalfRows = kRows / 2;
static_assert(kRows * 15 * 127 <= INT16_MAX);

// What the groups of a step are multiplied with.
struct alignas(32) NibbleCoefs {
  int32_t pairs[kRows / 2][kStepGroups];  // two bytes, of two rows, twice
  int32_t offsets[kStepGroups];           // a word to begin a sum with, twice
  float scales[kStepGroups];              // of the sums times 2^16
  float addends[kStepGroups];             // to add to every column
};

// The coefficients of a pass.
struct PassCoefs {
  __m256 rows[kRows];  // each eight times
  __m256 fours[2];     // four of them twice
};

// out [8] += scale * 2^16 * words + addend, of the first (kHigh: last) four
// words of each half: they become the upper halves of integers, which spares
// their extension.
template <bool kHigh, bool kHasAddend>
inline void AddWords(__m256i words, __m256 scale, __m256 addend, float* out) {
  const __m256i zero = _mm256_setzero_si256();
  const __m256i ints = kHigh ? _mm256_unpackhi_epi16(zero, words)
                             : _mm256_unpacklo_epi16(zero, words);
  __m256 base = _mm256_loadu_ps(out);
  if constexpr (kHasAddend) base = _mm256_add_ps(base, addend);
  _mm256_storeu_ps(out, _mm256_fmadd_ps(_mm256_cvtepi32_ps(ints), scale, base));
}

// A Format beside its blocks: a step has four parts of two times 16 bytes, one
// for the lower and one for the upper halves of vectors.
//   LoadPart    both of them, of one row
//   Elem        the column that begins in one of their four halves of nibbles
//   Spread      of what the groups have, that of a part's low or high nibbles

struct Q4_0 {
  static constexpr size_t kBlockBytes = sizeof(BlockQ4_0);
  static constexpr size_t kBlockElems = kBlock;
  static constexpr size_t kStepBytes = kStepGroups * sizeof(BlockQ4_0);
  static constexpr int kZero = 8;
  static constexpr bool kHasMin = false;

  static __m256 Scales(const std::byte* blocks) {
    return _mm256_cvtph_ps(EachWord<sizeof(BlockQ4_0)>(blocks));
  }

  // The products of coefficients and scales.
  template <size_t kPassRows>
  [[gnu::always_inline]] static void Multiply(
      const std::byte* const (&blocks)[kPassRows], const PassCoefs& coefs,
      __m256 (&products)[kPassRows], __m256& /*addends*/) {
#pragma clang loop unroll(full)
    for (size_t r = 0; r < kPassRows; ++r) {
      products[r] = _mm256_mul_ps(Scales(blocks[r]), coefs.rows[r]);
    }
  }

  // Blocks i and i + 4.
  static __m256i LoadPart(const std::byte* blocks, size_t i) {
    const std::byte* quants =
        blocks + i * sizeof(BlockQ4_0) + offsetof(BlockQ4_0, qs);
    return LoadTwo128(quants, quants + 4 * sizeof(BlockQ4_0));
  }
  static size_t Elem(size_t i, bool in_high_nibbles, bool in_upper_half) {
    return 32 * i + 16 * in_high_nibbles + 128 * in_upper_half;
  }
  static __m256i Spread(const int32_t* groups, size_t i, bool /*high*/) {
    return _mm256_castps_si256(_mm256_permutevar_ps(
        _mm256_load_ps(reinterpret_cast<const float*>(groups)),
        _mm256_set1_epi32(static_cast<int>(i))));
  }
};

struct Q4_K {
  static constexpr size_t kBlockBytes = sizeof(BlockQ4_K);
  static constexpr size_t kBlockElems = kSuperBlock;
  static constexpr size_t kStepBytes = sizeof(BlockQ4_K);
  static constexpr int kZero = 0;
  static constexpr bool kHasMin = true;

  // The d, then the dmin of four blocks.
  static __m256 Heads(const std::byte* const* blocks) {
    const auto load = [&](size_t r) {
      int32_t head;
      __builtin_memcpy(&head, blocks[r], sizeof(head));
      return head;
    };
    const __m128i heads = _mm_setr_epi32(load(0), load(1), load(2), load(3));
    return _mm256_cvtph_ps(_mm_shuffle_epi8(
        heads,
        _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15)));
  }

  static __m256 LoadEight(const uint8_t* bytes) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(
        _mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes))));
  }

  // The products of coefficients and scales, and the sum of those with minima,
  // negated.
  template <size_t kPassRows>
  [[gnu::always_inline]] static void Multiply(
      const std::byte* const (&blocks)[kPassRows], const PassCoefs& coefs,
      __m256 (&products)[kPassRows], __m256& addends) {
    alignas(32) float factors[2 * kPassRows];
    for (size_t r = 0; r < kPassRows; r += 4) {
      _mm256_store_ps(factors + 2 * r,
                      _mm256_mul_ps(Heads(blocks + r), coefs.fours[r / 4]));
    }
    alignas(32) uint8_t bytes[kPassRows][16];
    for (size_t r = 0; r < kPassRows; r += 2) {
      _mm256_store_si256(reinterpret_cast<__m256i*>(bytes[r]),
                         SixBits(LoadTwo128(blocks[r], blocks[r + 1])));
    }
    // They are to be read back: what spreads a number of memory costs half of
    // what it costs in a register.
    asm volatile("" : : "r"(factors), "r"(bytes) : "memory");
    addends = _mm256_setzero_ps();
#pragma clang loop unroll(full)
    for (size_t r = 0; r < kPassRows; ++r) {
      const float* factor = factors + r / 4 * 8 + r % 4;
      products[r] =
          _mm256_mul_ps(LoadEight(bytes[r]), _mm256_set1_ps(factor[0]));
      addends = _mm256_fnmadd_ps(LoadEight(bytes[r] + 8),
                                 _mm256_set1_ps(factor[4]), addends);
    }
  }

  static __m256i LoadPart(const std::byte* block, size_t i) {
    return Load256(block + offsetof(BlockQ4_K, qs) + 32 * i);
  }
  static size_t Elem(size_t i, bool in_high_nibbles, bool in_upper_half) {
    return 64 * i + 32 * in_high_nibbles + 16 * in_upper_half;
  }
  static __m256i Spread(const int32_t* groups, size_t i, bool high) {
    return _mm256_set1_epi32(groups[2 * i + high]);
  }
};

// A Kernel of int8_add_rows_driver.h.
template <class Format>
struct Kernel : Format {
  using RowCoefs = PassCoefs;
  using StepCoefs = NibbleCoefs;

  static RowCoefs CoefsOf(const float* coefs, size_t num_rows) {
    RowCoefs out;
    alignas(16) float padded[kRows];
    for (size_t r = 0; r < kRows; ++r) {
      padded[r] = r < num_rows ? coefs[r] : 0.0f;
      out.rows[r] = _mm256_set1_ps(padded[r]);
    }
    for (size_t i = 0; i < 2; ++i) {
      const __m128 four = _mm_load_ps(padded + 4 * i);
      out.fours[i] = _mm256_set_m128(four, four);
    }
    return out;
  }

  // The products of coefficients and scales, rounded.
  template <size_t kPassRows>
  [[gnu::always_inline]] static void MakeStepCoefs(
      const std::byte* const (&blocks)[kPassRows], const RowCoefs& rows,
      StepCoefs& out) {
    __m256 products[kPassRows];
    __m256 addends;
    Format::Multiply(blocks, rows, products, addends);
    if constexpr (Format::kHasMin) _mm256_store_ps(out.addends, addends);
    // As integers, what is not finite is larger than what is.
    __m256i largest = _mm256_setzero_si256();
    for (const __m256& product : products) {
      largest = _mm256_max_epi32(
          largest, _mm256_and_si256(_mm256_castps_si256(product),
                                    _mm256_set1_epi32(0x7FFFFFFF)));
    }
    const __m256 max = _mm256_castsi256_ps(largest);
    const __m256 share = _mm256_div_ps(_mm256_set1_ps(127.0f), max);
    // Nothing if the largest is 0, or nearly, or not a number.
    const __m256 is_finite =
        _mm256_cmp_ps(share, _mm256_set1_ps(__builtin_inff()), _CMP_LT_OQ);
    const __m256 to_bytes = _mm256_and_ps(share, is_finite);
    // NaN if the largest is not finite.
    const __m256 poison = _mm256_mul_ps(max, _mm256_setzero_ps());
    _mm256_store_ps(
        out.scales,
        _mm256_fmadd_ps(max, _mm256_set1_ps(0x1.0p-16f / 127.0f), poison));
    for (__m256& product : products) {
      product = _mm256_mul_ps(product, to_bytes);
    }
    StorePairs(products, out);
  }

  template <size_t kPassRows>
  [[gnu::always_inline]] static void StorePairs(
      const __m256 (&products)[kPassRows], StepCoefs& out) {
    // In each half, bytes of four groups: of row 0, of row 1 and so on.
    const __m256i first_pairs = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 4, 0, 4, 1, 5, 1, 5, 2, 6, 2, 6, 3, 7, 3, 7));
    const __m256i second_pairs = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        8, 12, 8, 12, 9, 13, 9, 13, 10, 14, 10, 14, 11, 15, 11, 15));
    const auto store = [](__m256i v, int32_t* to) {
      _mm256_store_si256(reinterpret_cast<__m256i*>(to), v);
    };
    const auto words = [&](size_t r) {
      return _mm256_packs_epi32(_mm256_cvtps_epi32(products[r]),
                                _mm256_cvtps_epi32(products[r + 1]));
    };
    __m256i offsets = _mm256_setzero_si256();
    for (size_t r = 0; r < kPassRows; r += 4) {
      const __m256i bytes = _mm256_packs_epi16(words(r), words(r + 2));
      const __m256i pairs[2] = {_mm256_shuffle_epi8(bytes, first_pairs),
                                _mm256_shuffle_epi8(bytes, second_pairs)};
      for (size_t i = 0; i < 2; ++i) {
        store(pairs[i], out.pairs[r / 2 + i]);
        offsets = _mm256_sub_epi16(
            offsets,
            _mm256_maddubs_epi16(_mm256_set1_epi8(Format::kZero), pairs[i]));
      }
    }
    if constexpr (Format::kZero != 0) store(offsets, out.offsets);
  }

  template <size_t kHalves, bool kPrefetch>
  [[gnu::always_inline]] static void AddStep(
      const std::byte* const (&blocks)[kHalves * kHalfRows],
      const StepCoefs& coefs, const PrefetchedLines& prefetch, float* out) {
    constexpr size_t kPassRows = kHalves * kHalfRows;
    constexpr size_t kParts = kStepGroups / 2;
#pragma clang loop unroll(full)
    for (size_t i = 0; i < kParts; ++i) {
      if constexpr (kPrefetch) {
        PrefetchPart<LinesOf(kPassRows * Format::kStepBytes), kParts>(prefetch,
                                                                      i);
      }
      // Columns 0-7 and 8-15 of both halves.
      __m256i low[2], high[2];
      if constexpr (Format::kZero != 0) {
        low[0] = low[1] = Format::Spread(coefs.offsets, i, false);
        high[0] = high[1] = Format::Spread(coefs.offsets, i, true);
      } else {
        low[0] = low[1] = high[0] = high[1] = _mm256_setzero_si256();
      }
#pragma clang loop unroll(full)
      for (size_t r = 0; r < kPassRows; r += 2) {
        const __m256i first = Format::LoadPart(blocks[r], i);
        const __m256i second = Format::LoadPart(blocks[r + 1], i);
        const __m256i bytes[2] = {_mm256_unpacklo_epi8(first, second),
                                  _mm256_unpackhi_epi8(first, second)};
        const int32_t* pairs = coefs.pairs[r / 2];
        const __m256i low_coefs = Format::Spread(pairs, i, false);
        const __m256i high_coefs = Format::Spread(pairs, i, true);
        for (size_t v = 0; v < 2; ++v) {
          low[v] = _mm256_add_epi16(
              low[v], _mm256_maddubs_epi16(LowNibbles(bytes[v]), low_coefs));
          high[v] = _mm256_add_epi16(
              high[v], _mm256_maddubs_epi16(HighNibbles(bytes[v]), high_coefs));
        }
      }
      AddTo(low, false, coefs, i, out);
      AddTo(high, true, coefs, i, out);
    }
  }

  // Adds the sums of part i's low or high nibbles.
  [[gnu::always_inline]] static void AddTo(const __m256i (&sums)[2], bool high,
                                           const StepCoefs& coefs, size_t i,
                                           float* out) {
    const size_t lower = Format::Elem(i, high, false);
    const size_t upper = Format::Elem(i, high, true);
    const auto spread = [](const float* groups, size_t elem) {
      return _mm256_set1_ps(groups[elem / 32]);
    };
    for (size_t v = 0; v < 2; ++v) {
      const __m256i words =
          _mm256_permute4x64_epi64(sums[v], _MM_SHUFFLE(3, 1, 2, 0));
      AddWords<false, Format::kHasMin>(words, spread(coefs.scales, lower),
                                       spread(coefs.addends, lower),
                                       out + lower + 8 * v);
      AddWords<true, Format::kHasMin>(words, spread(coefs.scales, upper),
                                      spread(coefs.addends, upper),
                                      out + upper + 8 * v);
    }
  }
};

}  // namespace

void FillInt8AddRowsAvx2(KernelTable& table) {
  Int8AddRows<Kernel<Q4_0>>::Fill(DType::kQ4_0, table);
  Int8AddRows<Kernel<Q4_K>>::Fill(DType::kQ4_K, table);
}

}  // namespace thermocline::kernels
