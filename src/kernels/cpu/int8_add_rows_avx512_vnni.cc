// Sums of listed rows for AVX-512 with VNNI.
//
// Transposed, a product of bytes does four rows at once: the nibbles of
// the same column of four rows lie side by side and meet four coefficients.
// What a quant is to be multiplied with, coefficient times scale of its block,
// differs from row to row, so that product is rounded to a byte, against the
// largest of eight rows in this block: as an activation is rounded in its block
// of 32. Per nibble that is half the work of quant_add_rows.cc.
#include <immintrin.h>

#include "kernels/cpu/ahead.h"
#include "kernels/cpu/int8_add_rows.h"
#include "kernels/cpu/int8_add_rows_driver.h"
#include "tensor/blocks.h"

namespace thermocline::kernels {
namespace {

constexpr size_t kStepElems = 256;
constexpr size_t kStepGroups = kStepElems / 32;  // of 32 elements
constexpr size_t kRows = kAddRowsGroup;
constexpr size_t kHalfRows = kRows / 2;

// What the groups of a step are multiplied with.
struct alignas(64) NibbleCoefs {
  int32_t quads[2][kStepGroups];  // four bytes: of four rows
  int32_t offsets[kStepGroups];   // to begin a sum of products with
  float scales[kStepGroups];      // of the sums
  float addends[kStepGroups];     // to add to every column
};

// Of the rows of a pass: row r in the first, row r + 4 in the second half.
struct HalfRowCoefs {
  __m512 pairs[kHalfRows];
};

inline __m512i Load512(const std::byte* p) { return _mm512_loadu_si512(p); }

inline __m256 HalvesToFloats(__m128i halves) { return _mm256_cvtph_ps(halves); }

inline __m512 Join(__m256 low, __m256 high) {
  return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}

inline __m256 Low(__m512 v) { return _mm512_castps512_ps256(v); }

inline __m256 High(__m512 v) { return _mm512_extractf32x8_ps(v, 1); }

struct Q4_0 {
  static constexpr size_t kBlockBytes = sizeof(BlockQ4_0);
  static constexpr size_t kBlockElems = kBlock;
  static constexpr size_t kStepBytes = kStepGroups * sizeof(BlockQ4_0);
  static constexpr int kZero = 8;
  static constexpr bool kHasMin = false;

  // Eight blocks of 18 bytes in two times 72, with a number each 9 words.
  static __m256 Scales(const std::byte* blocks) {
    const __m512i words =
        _mm512_castsi128_si512(_mm_setr_epi16(0, 9, 18, 27, 0, 9, 18, 27));
    const __m512i first = _mm512_permutexvar_epi16(words, Load512(blocks));
    const __m512i heads = _mm512_mask_permutexvar_epi16(
        first, 0xF0, words, Load512(blocks + kStepBytes / 2));
    return HalvesToFloats(_mm512_castsi512_si128(heads));
  }

  // 16 bytes number i of a step: where they are, and which elements begin in
  // their low and in their high nibbles.
  static constexpr size_t QuantsAt(size_t i) {
    return i * sizeof(BlockQ4_0) + offsetof(BlockQ4_0, qs);
  }
  static constexpr size_t LowElem(size_t i) { return 32 * i; }
  static constexpr size_t HighElem(size_t i) { return 32 * i + 16; }
};

struct Q4_K {
  static constexpr size_t kBlockBytes = sizeof(BlockQ4_K);
  static constexpr size_t kBlockElems = kSuperBlock;
  static constexpr size_t kStepBytes = sizeof(BlockQ4_K);
  static constexpr int kZero = 0;
  static constexpr bool kHasMin = true;

  static uint32_t LoadU32(const std::byte* p) {
    uint32_t value;
    __builtin_memcpy(&value, p, sizeof(value));
    return value;
  }
  static __m256 Times(uint64_t bytes, __m256 factor) {
    const __m256i ints =
        _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(bytes)));
    return _mm256_mul_ps(_mm256_cvtepi32_ps(ints), factor);
  }
  // Blocks begin with d and dmin; twelve bytes pack eight scales and eight
  // minima of six bits: those of the first four sub-blocks in the low six bits
  // of bytes 0-3 and 4-7; the low four bits of the others in bytes 8-11, the
  // upper two on top of the first.
  static __m256 Scales(const std::byte* block) {
    const uint32_t a = LoadU32(block + 4);
    const uint32_t c = LoadU32(block + 12);
    return Times((a & 0x3F3F3F3F) |
                     uint64_t{(c & 0x0F0F0F0F) | (a >> 2 & 0x30303030)} << 32,
                 _mm256_set1_ps(_cvtsh_ss(
                     static_cast<uint16_t>(LoadU32(block) & 0xFFFF))));
  }
  static __m256 Minima(const std::byte* block) {
    const uint32_t b = LoadU32(block + 8);
    const uint32_t c = LoadU32(block + 12);
    return Times(
        (b & 0x3F3F3F3F) |
            uint64_t{(c >> 4 & 0x0F0F0F0F) | (b >> 2 & 0x30303030)} << 32,
        _mm256_set1_ps(_cvtsh_ss(static_cast<uint16_t>(LoadU32(block) >> 16))));
  }

  static constexpr size_t QuantsAt(size_t i) {
    return offsetof(BlockQ4_K, qs) + 16 * i;
  }
  static constexpr size_t LowElem(size_t i) { return i / 2 * 64 + i % 2 * 16; }
  static constexpr size_t HighElem(size_t i) { return LowElem(i) + 32; }
};

// A Kernel of int8_add_rows_driver.h.
template <class Format>
struct Kernel : Format {
  using RowCoefs = HalfRowCoefs;
  using StepCoefs = NibbleCoefs;

  static RowCoefs CoefsOf(const float* coefs, size_t num_rows) {
    float padded[kRows] = {};
    for (size_t r = 0; r < num_rows; ++r) padded[r] = coefs[r];
    RowCoefs out;
    for (size_t r = 0; r < kHalfRows; ++r) {
      out.pairs[r] = Join(_mm256_set1_ps(padded[r]),
                          _mm256_set1_ps(padded[r + kHalfRows]));
    }
    return out;
  }

  // The products of coefficients and scales, rounded.
  template <size_t kPassRows>
  [[gnu::always_inline]] static void MakeStepCoefs(
      const std::byte* const (&blocks)[kPassRows], const RowCoefs& rows,
      StepCoefs& out) {
    // Of rows r and r + 4.
    const auto join = [&](__m256 (*of)(const std::byte*), size_t r) {
      const __m256 first = of(blocks[r]);
      return Join(first, kPassRows > kHalfRows
                             ? of(blocks[r + kPassRows - kHalfRows])
                             : first);
    };
    __m512 products[kHalfRows];
    __m512 largest = _mm512_setzero_ps();
    __m512 minima = _mm512_setzero_ps();
    __m512 poison = _mm512_setzero_ps();  // NaN where a product is not finite
    for (size_t r = 0; r < kHalfRows; ++r) {
      products[r] = _mm512_mul_ps(join(&Format::Scales, r), rows.pairs[r]);
      largest = _mm512_max_ps(largest, _mm512_abs_ps(products[r]));
      poison = _mm512_fmadd_ps(products[r], _mm512_setzero_ps(), poison);
      if constexpr (Format::kHasMin) {
        minima =
            _mm512_fmadd_ps(join(&Format::Minima, r), rows.pairs[r], minima);
      }
    }
    const __m256 max = _mm256_max_ps(Low(largest), High(largest));
    const __m256 to_bytes = _mm256_maskz_div_ps(
        _mm256_cmp_ps_mask(max, _mm256_setzero_ps(), _CMP_GT_OQ),
        _mm256_set1_ps(127.0f), max);
    _mm256_store_ps(out.scales,
                    _mm256_fmadd_ps(max, _mm256_set1_ps(1.0f / 127.0f),
                                    _mm256_add_ps(Low(poison), High(poison))));
    const __m512 factor = Join(to_bytes, to_bytes);
    __m512i bytes[kHalfRows];
    for (size_t r = 0; r < kHalfRows; ++r) {
      bytes[r] = _mm512_cvtps_epi32(_mm512_mul_ps(products[r], factor));
    }
    StoreQuads(bytes, out);
    if constexpr (Format::kHasMin) {
      const __m256 sum = _mm256_add_ps(Low(minima), High(minima));
      _mm256_store_ps(out.addends, _mm256_sub_ps(_mm256_setzero_ps(), sum));
    }
  }

  [[gnu::always_inline]] static void StoreQuads(
      const __m512i (&bytes)[kHalfRows], StepCoefs& out) {
    const __m512i byte = _mm512_set1_epi32(0xFF);
    constexpr int kAOrBOrC = 0xFE;
    const __m512i quads = _mm512_ternarylogic_epi32(
        _mm512_or_si512(_mm512_and_si512(bytes[0], byte),
                        _mm512_slli_epi32(_mm512_and_si512(bytes[1], byte), 8)),
        _mm512_slli_epi32(_mm512_and_si512(bytes[2], byte), 16),
        _mm512_slli_epi32(bytes[3], 24), kAOrBOrC);
    _mm512_store_si512(out.quads, quads);
    __m256i offsets = _mm256_setzero_si256();
    if constexpr (Format::kZero != 0) {
      const __m512i sums =
          _mm512_add_epi32(_mm512_add_epi32(bytes[0], bytes[1]),
                           _mm512_add_epi32(bytes[2], bytes[3]));
      const __m256i sum = _mm256_add_epi32(_mm512_castsi512_si256(sums),
                                           _mm512_extracti64x4_epi64(sums, 1));
      offsets = _mm256_mullo_epi32(sum, _mm256_set1_epi32(-Format::kZero));
    }
    _mm256_store_si256(reinterpret_cast<__m256i*>(out.offsets), offsets);
  }

  // 16 bytes of each of four rows, byte i of all rows side by side.
  [[gnu::always_inline]] static __m512i Interleave(
      const std::byte* const* blocks, size_t at) {
    const auto load = [&](size_t r) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(blocks[r] + at));
    };
    __m512i v = _mm512_castsi128_si512(load(0));
    v = _mm512_inserti32x4(v, load(1), 1);
    v = _mm512_inserti32x4(v, load(2), 2);
    v = _mm512_inserti32x4(v, load(3), 3);
    // Else clang replaces two permutations by twice as many cheaper ones.
    asm("" : "+v"(v));
    __m512i words = _mm512_permutexvar_epi32(
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15),
        v);
    asm("" : "+v"(words));
    return _mm512_shuffle_epi8(
        words, _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2,
                                                    6, 10, 14, 3, 7, 11, 15)));
  }

  template <size_t kHalves, bool kPrefetch>
  [[gnu::always_inline]] static void AddStep(
      const std::byte* const (&blocks)[kHalves * kHalfRows],
      const StepCoefs& coefs, const PrefetchedLines& prefetch, float* out) {
    constexpr size_t kLines = LinesOf(kHalves * kHalfRows * Format::kStepBytes);
    const __m512i nibble = _mm512_set1_epi8(0x0F);
#pragma clang loop unroll(full)
    for (size_t i = 0; i < kStepGroups; ++i) {
      if constexpr (kPrefetch) PrefetchPart<kLines, kStepGroups>(prefetch, i);
      const size_t low = Format::LowElem(i);
      const size_t high = Format::HighElem(i);
      __m512i low_sum = _mm512_set1_epi32(coefs.offsets[low / 32]);
      __m512i high_sum = _mm512_set1_epi32(coefs.offsets[high / 32]);
      for (size_t h = 0; h < kHalves; ++h) {
        const __m512i v =
            Interleave(blocks + h * kHalfRows, Format::QuantsAt(i));
        low_sum =
            _mm512_dpbusd_epi32(low_sum, _mm512_and_si512(v, nibble),
                                _mm512_set1_epi32(coefs.quads[h][low / 32]));
        high_sum = _mm512_dpbusd_epi32(
            high_sum, _mm512_and_si512(_mm512_srli_epi32(v, 4), nibble),
            _mm512_set1_epi32(coefs.quads[h][high / 32]));
      }
      AddTo(out + low, low_sum, coefs, low / 32);
      AddTo(out + high, high_sum, coefs, high / 32);
    }
  }

  [[gnu::always_inline]] static void AddTo(float* out, __m512i sum,
                                           const StepCoefs& coefs,
                                           size_t group) {
    __m512 base = _mm512_loadu_ps(out);
    if constexpr (Format::kHasMin) {
      base = _mm512_add_ps(base, _mm512_set1_ps(coefs.addends[group]));
    }
    _mm512_storeu_ps(
        out, _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum),
                             _mm512_set1_ps(coefs.scales[group]), base));
  }
};

}  // namespace

void FillInt8AddRowsAvx512Vnni(KernelTable& table) {
  Int8AddRows<Kernel<Q4_0>>::Fill(DType::kQ4_0, table);
  Int8AddRows<Kernel<Q4_K>>::Fill(DType::kQ4_K, table);
}

}  // namespace thermocline::kernels
