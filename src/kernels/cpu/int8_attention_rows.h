// Rows of Q8_0 in the KV cache, 16 at a time, and the scratch of a call: what
// scores and values of int8_attention_avx512_vnni.cc share.
#ifndef THERMOCLINE_KERNELS_CPU_INT8_ATTENTION_ROWS_H_
#define THERMOCLINE_KERNELS_CPU_INT8_ATTENTION_ROWS_H_

// Empty unless compiled for AVX-512 with VNNI, so that it compiles alone
// anywhere.
#if defined(__AVX512VNNI__) && defined(__AVX512BW__) && defined(__AVX512DQ__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/int8_attention.h"
#include "kernels/kernels.h"
#include "tensor/blocks.h"

// Unnamed in a header on purpose: the including file must keep its own copy,
// compiled with its own flags.
namespace thermocline::kernels {
namespace {

constexpr size_t kLanes = 16;
constexpr size_t kQueries = 8;  // side by side, at most
constexpr size_t kLine = 64;
constexpr size_t kBlockBytes = sizeof(BlockQ8_0);
static_assert(kInt8AttentionStep == 2 * kBlock, "scales are read in pairs");

// 32 elements of a query: scale * quants[i], and what a sum of products begins
// with, because keys are taken 128 too large.
struct QueryBlock {
  int8_t quants[kBlock];
  int32_t offset;
  float scale;
};

// The same block of 16 keys.
struct KeyBlock {
  __m512i quads[kBlock / 4];  // lane p: quants 4i .. 4i + 3 of key p, plus 128
  __m512 scales;
};

// The scales of a block of all values, relative to the largest of their rows:
// 32767 is 1. kNotFinite where the scale was NaN or infinite.
struct alignas(64) ValueRatios {
  int16_t of[kAttentionPiece];
};
constexpr int16_t kNotFinite = INT16_MIN;

inline size_t Min(size_t a, size_t b) { return a < b ? a : b; }

inline int32_t LoadI32(const void* p) {
  int32_t value;
  __builtin_memcpy(&value, p, sizeof(value));
  return value;
}

inline __m256i Load256(const std::byte* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}

inline __mmask16 FirstLanes(size_t count) {
  return static_cast<__mmask16>((1U << count) - 1);
}

// Calls f with a constant: the number, 1 to kMax.
template <size_t kMax, class Function>
[[gnu::always_inline]] inline void WithNumber(size_t number,
                                              const Function& f) {
  if constexpr (kMax > 1) {
    if (number < kMax) return WithNumber<kMax - 1>(number, f);
  }
  f.template operator()<kMax>();
}

// Keys or values as they lie in the cache.
struct Rows {
  const std::byte* first;
  size_t stride_bytes;
  size_t num_rows;
  const std::byte* next;  // what is read after them

  const std::byte* row(size_t r) const { return first + r * stride_bytes; }

  // Where to ask for what is read as much later as there are rows. May be past
  // the cache, where no pointer may point.
  uintptr_t Ahead(size_t r) const {
    return reinterpret_cast<uintptr_t>(next) + r * stride_bytes;
  }
};

// 16 rows from row r; behind the last one, that one again: what is computed of
// it is not used.
struct RowGroup {
  [[gnu::always_inline]] RowGroup(const Rows& from, size_t r) {
    const std::byte* last = from.row(from.num_rows - 1);
    const std::byte* row = from.row(r);
#pragma clang loop unroll(full)
    for (size_t i = 0; i < kLanes; ++i) {
      rows[i] = row;
      row = row < last ? row + from.stride_bytes : last;
    }
  }
  const std::byte* rows[kLanes];
};

// Asks for a line in the second level: in the first it would push out what is
// used now.
inline void Ask(uintptr_t address) {
  __builtin_prefetch(reinterpret_cast<const void*>(address), 0, 2);
}

// A call's scratch.
struct Work {
  explicit Work(const AttentionArgs& args)
      : num_queries(args.num_tokens * args.num_heads),
        k_blocks(args.k_width / kBlock),
        v_blocks(args.v_width / kBlock),
        scores(args.scratch),
        keys(reinterpret_cast<KeyBlock*>(scores + kAttentionQueries *
                                                      kAttentionScoresStride)),
        ratios(reinterpret_cast<ValueRatios*>(keys + k_blocks)),
        queries(reinterpret_cast<QueryBlock*>(ratios + v_blocks)) {}

  size_t num_queries;
  size_t k_blocks;
  size_t v_blocks;
  float* scores;  // [num_queries, kAttentionScoresStride]; then rounded weights
  KeyBlock* keys;       // [k_blocks]
  ValueRatios* ratios;  // [v_blocks]
  QueryBlock* queries;  // [k_blocks, num_queries]
};
static_assert(sizeof(KeyBlock) + kAttentionQueries * sizeof(QueryBlock) <=
                  kAttentionQueries * kBlock * sizeof(float),
              "as much as AttentionScratchFloats() gives a block of keys");
static_assert(sizeof(ValueRatios) <= 4 * kBlock * sizeof(float),
              "likewise of values");

// Of the blocks at `offset` and after it: the first one's scales of all rows,
// then the second one's.
[[gnu::always_inline]] inline __m512i PairOfScales(const RowGroup& group,
                                                   size_t offset) {
  constexpr int64_t kSecond = kBlockBytes / sizeof(uint16_t);
  // Of rows a and b: a0 b0 a1 b1.
  const __m512i words = _mm512_set1_epi64(kSecond << 32 | (kSecond + 32) << 48 |
                                          int64_t{32} << 16);
  const auto pair = [&](size_t r) {
    return _mm512_castsi512_si128(_mm512_permutex2var_epi16(
        _mm512_loadu_si512(group.rows[r] + offset), words,
        _mm512_loadu_si512(group.rows[r + 1] + offset)));
  };
  __m128i eight[2][2];  // rows; of the first and of the second block
#pragma clang loop unroll(full)
  for (size_t i = 0; i < 2; ++i) {
    const __m128i a = _mm_unpacklo_epi32(pair(8 * i), pair(8 * i + 2));
    const __m128i b = _mm_unpacklo_epi32(pair(8 * i + 4), pair(8 * i + 6));
    eight[i][0] = _mm_unpacklo_epi64(a, b);
    eight[i][1] = _mm_unpackhi_epi64(a, b);
  }
  return _mm512_inserti64x4(
      _mm512_castsi256_si512(_mm256_set_m128i(eight[1][0], eight[0][0])),
      _mm256_set_m128i(eight[1][1], eight[0][1]), 1);
}

template <int kHalf>
[[gnu::always_inline]] inline __m512 ScalesOf(__m512i words) {
  return _mm512_cvtph_ps(_mm512_extracti64x4_epi64(words, kHalf));
}

}  // namespace
}  // namespace thermocline::kernels

#endif

#endif  // THERMOCLINE_KERNELS_CPU_INT8_ATTENTION_ROWS_H_
