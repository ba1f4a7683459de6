// The scores of int8_attention_avx512_vnni.cc.
#ifndef THERMOCLINE_KERNELS_CPU_INT8_ATTENTION_SCORES_H_
#define THERMOCLINE_KERNELS_CPU_INT8_ATTENTION_SCORES_H_

// Empty unless compiled for AVX-512 with VNNI, so that it compiles alone
// anywhere.
#if defined(__AVX512VNNI__) && defined(__AVX512BW__) && defined(__AVX512DQ__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/int8_attention_groups.h"
#include "kernels/kernels.h"
#include "kernels/kv_group.h"
#include "tensor/blocks.h"

// Unnamed in a header on purpose: the including file must keep its own copy,
// compiled with its own flags.
namespace thermocline::kernels {
namespace {

// x[i] * factor for i < 32. The scale is NaN if one of them is not finite.
inline void RoundQuery(const float* x, float factor, QueryBlock* out) {
  const __m512 factors = _mm512_set1_ps(factor);
  const __m512 low = _mm512_mul_ps(_mm512_loadu_ps(x), factors);
  const __m512 high = _mm512_mul_ps(_mm512_loadu_ps(x + kLanes), factors);
  const auto magnitude = [](__m512 v) {
    return _mm512_castps_si512(_mm512_abs_ps(v));
  };
  // As integers, infinity is larger than numbers, and NaN than infinity.
  const int32_t top = _mm512_reduce_max_epi32(
      _mm512_max_epi32(magnitude(low), magnitude(high)));
  const float largest = __builtin_bit_cast(float, top);
  // Below, the quotient would be infinite.
  const float to_quants = largest > 1e-30f ? 127 / largest : 0.0f;
  const auto round = [&](__m512 v) {
    return _mm512_cvtps_epi32(_mm512_mul_ps(v, _mm512_set1_ps(to_quants)));
  };
  const __m512i quants[2] = {round(low), round(high)};
  auto* bytes = reinterpret_cast<__m128i*>(out->quants);
  _mm_storeu_si128(bytes, _mm512_cvtepi32_epi8(quants[0]));
  _mm_storeu_si128(bytes + 1, _mm512_cvtepi32_epi8(quants[1]));
  // Unsigned: what NaN becomes may overflow.
  const auto sum = static_cast<uint32_t>(
      _mm512_reduce_add_epi32(_mm512_add_epi32(quants[0], quants[1])));
  out->offset = static_cast<int32_t>(-128 * sum);
  constexpr int32_t kInfinity = 0x7F800000;
  out->scale = top < kInfinity ? largest / 127 : __builtin_nanf("");
}

inline void RoundQueries(const AttentionArgs& args, const Work& work) {
  QueryBlock* out = work.queries;
  for (size_t t = 0; t < args.num_tokens; ++t) {
    for (size_t g = 0; g < args.num_heads; ++g, ++out) {
      const float* q = args.q + t * args.q_stride + g * args.k_width;
      for (size_t b = 0; b < args.k_width / kBlock; ++b) {
        RoundQuery(q + b * kBlock, args.scale, out + b * work.num_queries);
      }
    }
  }
}

// What a block adds to the scores of kNum queries with 16 keys.
template <bool kPrefetches, size_t kNum>
[[gnu::always_inline]] inline void AddProducts(const std::byte* quants,
                                               __m256i scales,
                                               const QueryBlock* queries,
                                               const Prefetching& prefetching,
                                               __m512 (&sums)[kNum]) {
  __m512i dots[kNum];
#pragma clang loop unroll(full)
  for (size_t j = 0; j < kNum; ++j) {
    dots[j] = _mm512_set1_epi32(queries[j].offset);
  }
#pragma clang loop unroll(full)
  for (size_t i = 0; i < kTurnLines; ++i) {
    if constexpr (kPrefetches) prefetching.ForLine(i);
    const __m512i key = _mm512_load_si512(quants + i * kLineBytes);
#pragma clang loop unroll(full)
    for (size_t j = 0; j < kNum; ++j) {
      dots[j] = _mm512_dpbusd_epi32(
          dots[j], key, _mm512_set1_epi32(LoadI32(queries[j].quants + 4 * i)));
    }
  }
  // NaN for infinity too.
  const __m512 factors = _mm512_cvtph_ps(scales);
  const __m512 key_scales =
      _mm512_fmadd_ps(factors, _mm512_setzero_ps(), factors);
#pragma clang loop unroll(full)
  for (size_t j = 0; j < kNum; ++j) {
    const __m512 scale =
        _mm512_mul_ps(key_scales, _mm512_set1_ps(queries[j].scale));
    sums[j] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[j]), scale, sums[j]);
  }
}

// Scores of kNum queries from number `query` with 16 keys from position p of
// kPieces pieces. [kAttentionPieces]: what is prefetched.
template <bool kPrefetches, size_t kPieces, size_t kNum>
void ScoreKeys(const Work& work, const Groups& keys, PieceAhead* ahead,
               size_t first_piece, size_t p, size_t query) {
  const size_t position = p % kKvGroup;
  const std::byte* scales[kPieces];
  const std::byte* quants[kPieces];
  __m512 sums[kPieces][kNum];
#pragma clang loop unroll(full)
  for (size_t i = 0; i < kPieces; ++i) {
    const Groups piece = keys.OfPiece(first_piece + i);
    const std::byte* group = piece.group(p / kKvGroup);
    scales[i] = group + ScaleInGroup(0, position);
    quants[i] = group + KeyInGroup(keys.num_blocks, 0, position, 0);
    if (kPrefetches && position == 0) {
      PrefetchScales(keys.num_blocks, &ahead[first_piece + i]);
    }
#pragma clang loop unroll(full)
    for (size_t j = 0; j < kNum; ++j) sums[i][j] = _mm512_setzero_ps();
  }
  for (size_t b = 0; b < keys.num_blocks; ++b) {
    const QueryBlock* queries = work.queries + b * work.num_queries + query;
#pragma clang loop unroll(full)
    for (size_t i = 0; i < kPieces; ++i) {
      const Prefetching prefetching =
          kPrefetches ? ahead[first_piece + i].Take(kTurnLines) : Prefetching();
      AddProducts<kPrefetches, kNum>(
          quants[i],
          _mm256_load_si256(reinterpret_cast<const __m256i*>(scales[i])),
          queries, prefetching, sums[i]);
      quants[i] += kTurnBytes;
      scales[i] += ScaleInGroup(1, 0);
    }
  }
  for (size_t i = 0; i < kPieces; ++i) {
    const Work of_piece = work.OfPiece(first_piece + i);
    for (size_t j = 0; j < kNum; ++j) {
      _mm512_store_ps(of_piece.scores_of(query + j) + p, sums[i][j]);
    }
  }
}

inline void AllScores(const Groups& keys, const Work& work, PieceAhead* ahead) {
  for (size_t p = keys.begin * kKvGroup; p < keys.num_groups * kKvGroup;
       p += kLanes) {
    ForEachBlock<kScoreColumns>(
        work, [&]<size_t kPieces, size_t kNum>(size_t piece, size_t query) {
          if (query == 0) {
            ScoreKeys<true, kPieces, kNum>(work, keys, ahead, piece, p, query);
          } else {
            ScoreKeys<false, kPieces, kNum>(work, keys, ahead, piece, p, query);
          }
        });
  }
}

}  // namespace
}  // namespace thermocline::kernels

#endif

#endif  // THERMOCLINE_KERNELS_CPU_INT8_ATTENTION_SCORES_H_
