// Attention over keys and values in Q8_0, for AVX-512 with VNNI.
//
// With a few queries per key the float kernel is bound by arithmetic. Here the
// products are of bytes and words, and no sum ever crosses the lanes:
//
// Scores: 16 positions lie side by side. A block of 16 keys is transposed, so
// that a vector has the same four quants of all of them, and meets four quants
// of a query, the same in all lanes.
//
// Values: columns lie side by side, two positions in the halves of a lane. They
// meet two weights: e^score times the scale of the value's block, in 16 bits.
// Its factors are rounded once each, for a position and a block (ValueRatios)
// and for a query and a position (RoundedWeights); their product, in words, is
// one instruction for 32 positions. The sums over a whole piece are integers:
// 256 * 2^15 * 2^7 is 2^30.
#include <immintrin.h>

#include "kernels/cpu/int8_attention.h"
#include "kernels/cpu/int8_attention_rows.h"
#include "kernels/cpu/int8_attention_scores.h"
#include "tensor/blocks.h"

namespace thermocline::kernels {
namespace {

constexpr size_t kChunk = 64;  // values read together, while in the cache

// Writes the ratios of all values, and the largest finite scale, without its
// sign, of each. Returns whether all scales are finite.
bool MakeRatios(const Rows& values, const Work& work, float* largest) {
  const __m512i infinity = _mm512_set1_epi16(0x7C00);
  __mmask32 not_finite = 0;
  for (size_t p = 0; p < values.num_rows; p += kLanes) {
    const RowGroup group(values, p);
    const auto place = [&](size_t b) {
      return reinterpret_cast<__m256i*>(work.ratios[b].of + p);
    };
    __m512i magnitudes = _mm512_setzero_si512();
    for (size_t b = 0; b < work.v_blocks; b += 2) {
      const __m512i words = PairOfScales(group, b * kBlockBytes);
      _mm256_store_si256(place(b), _mm512_castsi512_si256(words));
      _mm256_store_si256(place(b + 1), _mm512_extracti64x4_epi64(words, 1));
      const __m512i magnitude =
          _mm512_and_si512(words, _mm512_set1_epi16(0x7FFF));
      const __mmask32 finite = _mm512_cmplt_epi16_mask(magnitude, infinity);
      not_finite |= ~finite;
      magnitudes =
          _mm512_mask_max_epi16(magnitudes, finite, magnitudes, magnitude);
    }
    const __m512 max = _mm512_cvtph_ps(
        _mm256_max_epi16(_mm512_castsi512_si256(magnitudes),
                         _mm512_extracti64x4_epi64(magnitudes, 1)));
    _mm512_store_ps(largest + p, max);
    // No scale but zero is smaller than the least half.
    const __m512 to_ratio = _mm512_div_ps(
        _mm512_set1_ps(32767.0f), _mm512_max_ps(max, _mm512_set1_ps(0x1p-24f)));
    for (size_t b = 0; b < work.v_blocks; ++b) {
      // What is not finite becomes the least integer.
      const __m512 ratio =
          _mm512_mul_ps(_mm512_cvtph_ps(_mm256_load_si256(place(b))), to_ratio);
      _mm256_store_si256(place(b),
                         _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(ratio)));
    }
  }
  return not_finite == 0;
}

// e^x for x <= 0, but 0 below e^-64, where it could not be seen beside the 1 of
// the largest score. Relative error 2^-22; 1 for 0; NaN for NaN.
[[gnu::always_inline]] inline __m512 Weight(__m512 x) {
  const __m512 log2e = _mm512_set1_ps(1.44269504f);
  const __m512 whole =
      _mm512_roundscale_ps(_mm512_mul_ps(x, log2e), _MM_FROUND_TO_NEAREST_INT);
  const __m512 f = _mm512_fmsub_ps(x, log2e, whole);
  // 2^f on [-1/2, 1/2]
  __m512 power = _mm512_set1_ps(0.00133813025f);
  for (const float c :
       {0.00966636852f, 0.0555038101f, 0.24022349f, 0.693147181f, 1.0f}) {
    power = _mm512_fmadd_ps(power, f, _mm512_set1_ps(c));
  }
  const __mmask16 seen =
      _mm512_cmp_ps_mask(x, _mm512_set1_ps(-64.0f), _CMP_NLT_UQ);
  return _mm512_maskz_scalef_ps(seen, power, whole);
}

// The n scores of a query become weights times `largest`, rounded against the
// greatest of them, in the place of the first scores. Writes the largest score
// and the sum of the weights; returns what a unit of a rounded weight times a
// ratio is worth.
float RoundedWeights(float* scores, size_t n, const float* largest,
                     float* max_and_sum) {
  const auto for_each_vector = [&](const auto& f) {
    for (size_t p = 0; p < n; p += kLanes) {
      f(p, FirstLanes(Min(n - p, kLanes)));
    }
  };
  __m512 max = _mm512_set1_ps(-3.40282347e38f);
  for_each_vector([&](size_t p, __mmask16 lanes) {
    max = _mm512_mask_max_ps(max, lanes, max, _mm512_load_ps(scores + p));
  });
  max_and_sum[0] = _mm512_reduce_max_ps(max);
  max = _mm512_set1_ps(max_and_sum[0]);
  __m512 sum = _mm512_setzero_ps();
  __m512 top = _mm512_setzero_ps();
  for_each_vector([&](size_t p, __mmask16 lanes) {
    const __m512 weight = _mm512_maskz_mov_ps(
        lanes, Weight(_mm512_sub_ps(_mm512_load_ps(scores + p), max)));
    const __m512 product = _mm512_mul_ps(weight, _mm512_load_ps(largest + p));
    _mm512_store_ps(scores + p, product);
    sum = _mm512_add_ps(sum, weight);
    top = _mm512_max_ps(top, product);
  });
  max_and_sum[1] = _mm512_reduce_add_ps(sum);
  const float unit = _mm512_reduce_max_ps(top) / 32767;
  // Below, what there is cannot be seen, and the quotient would be infinite.
  const __m512 to_words = _mm512_set1_ps(unit > 1e-32f ? 1 / unit : 0.0f);
  auto* words = reinterpret_cast<__m256i*>(scores);
  for (size_t p = 0; p < kAttentionPiece; p += kLanes, ++words) {
    const __m512 products =
        p < n ? _mm512_load_ps(scores + p) : _mm512_setzero_ps();
    _mm256_store_si256(words, _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(
                                  _mm512_mul_ps(products, to_words))));
  }
  return unit * (32768.0f / 32767.0f);
}

// sums[j] += weights[j] times num_rows values from position p in one
// block, for kNum queries. The columns of `sums` are in the order
// that unpacking leaves (StoreSums).
template <size_t kNum>
[[gnu::always_inline]] inline void AddPairs(
    const Rows& values, size_t p, size_t num_rows, size_t offset,
    const int32_t (*weights)[kChunk / 2], float* sums, size_t sums_stride) {
  __m512i low[kNum], high[kNum];
#pragma clang loop unroll(full)
  for (size_t j = 0; j < kNum; ++j) {
    low[j] = _mm512_load_si512(sums + j * sums_stride);
    high[j] = _mm512_load_si512(sums + j * sums_stride + kLanes);
  }
  const size_t quants = offset + offsetof(BlockQ8_0, qs);
  // As if the rows lay one after another: in a cache, they do.
  const uintptr_t ahead = values.Ahead(p) + offset * kChunk;
  for (size_t i = kChunk / 2 * kLine; i < kChunk * kBlockBytes; i += kLine) {
    Ask(ahead + i);
  }
  const std::byte* row = values.row(p) + quants;
  const auto add =
      [&](size_t i, const std::byte* second_row)
          __attribute__((always_inline)) {
            Ask(ahead + i * kLine);
            const __m512i first = _mm512_cvtepi8_epi16(Load256(row));
            const __m512i second = _mm512_cvtepi8_epi16(Load256(second_row));
            const __m512i low_pairs = _mm512_unpacklo_epi16(first, second);
            const __m512i high_pairs = _mm512_unpackhi_epi16(first, second);
#pragma clang loop unroll(full)
            for (size_t j = 0; j < kNum; ++j) {
              const __m512i weight = _mm512_set1_epi32(weights[j][i]);
              low[j] = _mm512_dpwssd_epi32(low[j], low_pairs, weight);
              high[j] = _mm512_dpwssd_epi32(high[j], high_pairs, weight);
            }
          };
  for (size_t i = 0; i < num_rows / 2; ++i, row += 2 * values.stride_bytes) {
    add(i, row + values.stride_bytes);
  }
  if (num_rows % 2 != 0) add(num_rows / 2, row);  // the second weighs nothing
#pragma clang loop unroll(full)
  for (size_t j = 0; j < kNum; ++j) {
    _mm512_store_si512(sums + j * sums_stride, low[j]);
    _mm512_store_si512(sums + j * sums_stride + kLanes, high[j]);
  }
}

// The integer sums of kNum queries from number `query` over a chunk of values.
template <size_t kNum>
void AddChunk(const AttentionArgs& args, const Work& work, const Rows& values,
              size_t p, size_t query) {
  const size_t stride = PartialAttentionFloats(args.v_width);
  const size_t num_rows = Min(values.num_rows - p, kChunk);
  alignas(64) int32_t weights[kNum][kChunk / 2];
  for (size_t b = 0; b < work.v_blocks; ++b) {
    for (size_t j = 0; j < kNum; ++j) {
      const auto* of_query = reinterpret_cast<const int16_t*>(
          work.scores + (query + j) * kAttentionScoresStride);
      for (size_t i = 0; i < kChunk; i += 32) {
        _mm512_store_si512(
            weights[j] + i / 2,
            _mm512_mulhrs_epi16(_mm512_load_si512(of_query + p + i),
                                _mm512_load_si512(work.ratios[b].of + p + i)));
      }
    }
    AddPairs<kNum>(values, p, num_rows, b * kBlockBytes, weights,
                   args.out + query * stride + b * kBlock, stride);
  }
}

void AllValues(const AttentionArgs& args, const Work& work,
               const Rows& values) {
  for (size_t p = 0; p < values.num_rows; p += kChunk) {
    for (size_t j = 0; j < work.num_queries; j += kQueries) {
      WithNumber<kQueries>(
          Min(work.num_queries - j, kQueries),
          [&]<size_t kNum>() { AddChunk<kNum>(args, work, values, p, j); });
    }
  }
}

// The integer sums of a block become floats, in their order.
[[gnu::always_inline]] inline void StoreSums(float* sums, float unit) {
  const __m512 low =
      _mm512_cvtepi32_ps(_mm512_load_si512(sums));  // 0-3, 8-11, ..
  const __m512 high = _mm512_cvtepi32_ps(_mm512_load_si512(sums + kLanes));
  const auto columns = [&](__m512i lanes) {
    return _mm512_mul_ps(
        _mm512_castpd_ps(_mm512_permutex2var_pd(_mm512_castps_pd(low), lanes,
                                                _mm512_castps_pd(high))),
        _mm512_set1_ps(unit));
  };
  const __m512 first = columns(_mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11));
  const __m512 second = columns(_mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15));
  _mm512_store_ps(sums, first);
  _mm512_store_ps(sums + kLanes, second);
}

inline bool HasNotFinite(const ValueRatios& ratios, size_t num_positions) {
  for (size_t p = 0; p < num_positions; ++p) {
    if (ratios.of[p] == kNotFinite) return true;
  }
  return false;
}

}  // namespace

void Int8AttentionAvx512Vnni(const AttentionArgs& args) {
  const Work work(args);
  const size_t num_positions = args.PositionsOf(work.num_queries - 1);
  const Rows keys = {args.k, args.k_stride_bytes, num_positions, args.v};
  const Rows values = {args.v, args.v_stride_bytes, num_positions,
                       args.k + num_positions * args.k_stride_bytes};
  RoundQueries(args, work);
  AllScores(keys, work);
  alignas(64) float largest[kAttentionPiece];
  const bool all_finite = MakeRatios(values, work, largest);
  const size_t stride = PartialAttentionFloats(args.v_width);
  float units[kAttentionQueries];
  for (size_t j = 0; j < work.num_queries; ++j) {
    float* out = args.out + j * stride;
    for (size_t i = 0; i < stride; i += kLanes) {
      _mm512_store_ps(out + i, _mm512_setzero_ps());
    }
    units[j] = RoundedWeights(work.scores + j * kAttentionScoresStride,
                              args.PositionsOf(j), largest, out + args.v_width);
  }
  AllValues(args, work, values);
  for (size_t j = 0; j < work.num_queries; ++j) {
    float* out = args.out + j * stride;
    for (size_t b = 0; b < work.v_blocks; ++b) {
      const bool is_finite =
          all_finite || !HasNotFinite(work.ratios[b], args.PositionsOf(j));
      StoreSums(out + b * kBlock, is_finite ? units[j] : __builtin_nanf(""));
    }
  }
}

}  // namespace thermocline::kernels
