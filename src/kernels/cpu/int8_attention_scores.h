// The scores of int8_attention_avx512_vnni.cc.
#ifndef THERMOCLINE_KERNELS_CPU_INT8_ATTENTION_SCORES_H_
#define THERMOCLINE_KERNELS_CPU_INT8_ATTENTION_SCORES_H_

// Empty unless compiled for AVX-512 with VNNI, so that it compiles alone
// anywhere.
#if defined(__AVX512VNNI__) && defined(__AVX512BW__) && defined(__AVX512DQ__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/int8_attention_rows.h"
#include "kernels/kernels.h"
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
      for (size_t b = 0; b < work.k_blocks; ++b) {
        RoundQuery(q + b * kBlock, args.scale, out + b * work.num_queries);
      }
    }
  }
}

// Lane p of out[i] becomes the four quants 4i .. of row p, plus 128.
[[gnu::always_inline]] inline void Transpose(const RowGroup& group,
                                             size_t offset,
                                             __m512i (&out)[kBlock / 4]) {
  __m512i in[8];
#pragma clang loop unroll(full)
  for (size_t i = 0; i < 8; ++i) {
    const size_t r = i + i / 4 * 4;  // the halves: rows r and r + 4
    in[i] = _mm512_inserti64x4(
        _mm512_castsi256_si512(Load256(group.rows[r] + offset)),
        Load256(group.rows[r + 4] + offset), 1);
    // Else clang makes words of general registers of some of them.
    asm("" : "+v"(in[i]));
  }
  // Columns 0 and 4 of four rows and four rows, columns 1 and 5, and so on.
  __m512i columns[2][4];
#pragma clang loop unroll(full)
  for (size_t i = 0; i < 2; ++i) {
    const __m512i* rows = in + 4 * i;
    const __m512i a = _mm512_unpacklo_epi32(rows[0], rows[1]);
    const __m512i b = _mm512_unpackhi_epi32(rows[0], rows[1]);
    const __m512i c = _mm512_unpacklo_epi32(rows[2], rows[3]);
    const __m512i d = _mm512_unpackhi_epi32(rows[2], rows[3]);
    columns[i][0] = _mm512_unpacklo_epi64(a, c);
    columns[i][1] = _mm512_unpackhi_epi64(a, c);
    columns[i][2] = _mm512_unpacklo_epi64(b, d);
    columns[i][3] = _mm512_unpackhi_epi64(b, d);
  }
  const __m512i sign = _mm512_set1_epi8(-128);
#pragma clang loop unroll(full)
  for (size_t i = 0; i < 4; ++i) {
    const __m512i a = _mm512_xor_si512(columns[0][i], sign);
    const __m512i b = _mm512_xor_si512(columns[1][i], sign);
    out[i] = _mm512_shuffle_i64x2(a, b, _MM_SHUFFLE(2, 0, 2, 0));
    out[i + 4] = _mm512_shuffle_i64x2(a, b, _MM_SHUFFLE(3, 1, 3, 1));
  }
}

// sums[j] += what a block adds to the scores of 16 keys with query j.
template <size_t kNum>
[[gnu::always_inline]] inline void AddBlock(const KeyBlock& key,
                                            const QueryBlock* queries,
                                            __m512 (&sums)[kNum]) {
  __m512i dots[kNum];
#pragma clang loop unroll(full)
  for (size_t j = 0; j < kNum; ++j) {
    dots[j] = _mm512_set1_epi32(queries[j].offset);
  }
#pragma clang loop unroll(full)
  for (size_t i = 0; i < kBlock / 4; ++i) {
#pragma clang loop unroll(full)
    for (size_t j = 0; j < kNum; ++j) {
      dots[j] = _mm512_dpbusd_epi32(
          dots[j], key.quads[i],
          _mm512_set1_epi32(LoadI32(queries[j].quants + 4 * i)));
    }
  }
#pragma clang loop unroll(full)
  for (size_t j = 0; j < kNum; ++j) {
    const __m512 scale =
        _mm512_mul_ps(key.scales, _mm512_set1_ps(queries[j].scale));
    sums[j] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[j]), scale, sums[j]);
  }
}

// Scores of kNum queries with 16 keys from key p. Further queries find the
// transposed keys in work.keys.
template <size_t kNum>
[[gnu::always_inline]] inline void ScoreRows(const Work& work, const Rows& keys,
                                             size_t p) {
  const RowGroup group(keys, p);
  const uintptr_t ahead = keys.Ahead(p);
  const bool keep = work.num_queries > kNum;
  __m512 sums[kNum];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  for (size_t b = 0; b < work.k_blocks; b += 2) {
    const size_t offset = b * kBlockBytes;
    const __m512i words = PairOfScales(group, offset);
    const auto add = [&](__m512 scales, size_t block,
                         size_t at) __attribute__((always_inline)) {
      // As if the rows lay one after another: in a cache, they do.
      for (size_t i = 0; i < kLanes * kBlockBytes; i += kLine) {
        Ask(ahead + block * kLanes * kBlockBytes + i);
      }
      KeyBlock key;
      Transpose(group, at + offsetof(BlockQ8_0, qs), key.quads);
      // NaN for infinity too.
      key.scales = _mm512_fmadd_ps(scales, _mm512_setzero_ps(), scales);
      if (keep) work.keys[block] = key;
      AddBlock<kNum>(key, work.queries + block * work.num_queries, sums);
    };
    add(ScalesOf<0>(words), b, offset);
    add(ScalesOf<1>(words), b + 1, offset + kBlockBytes);
  }
  for (size_t j = 0; j < kNum; ++j) {
    _mm512_store_ps(work.scores + j * kAttentionScoresStride + p, sums[j]);
  }
}

// The same with the keys in work.keys, for kNum queries from number `query`.
template <size_t kNum>
void ScoreKept(const Work& work, size_t query, size_t p) {
  __m512 sums[kNum];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  for (size_t b = 0; b < work.k_blocks; ++b) {
    AddBlock<kNum>(work.keys[b], work.queries + b * work.num_queries + query,
                   sums);
  }
  for (size_t j = 0; j < kNum; ++j) {
    _mm512_store_ps(work.scores + (query + j) * kAttentionScoresStride + p,
                    sums[j]);
  }
}

inline void AllScores(const Rows& keys, const Work& work) {
  const size_t num_first = Min(work.num_queries, kQueries);
  WithNumber<kQueries>(num_first, [&]<size_t kNum>() {
    for (size_t p = 0; p < keys.num_rows; p += kLanes) {
      ScoreRows<kNum>(work, keys, p);
      for (size_t j = kNum; j < work.num_queries; j += kQueries) {
        WithNumber<kQueries>(
            Min(work.num_queries - j, kQueries),
            [&]<size_t kRest>() { ScoreKept<kRest>(work, j, p); });
      }
    }
  });
}

}  // namespace
}  // namespace thermocline::kernels

#endif

#endif  // THERMOCLINE_KERNELS_CPU_INT8_ATTENTION_SCORES_H_
