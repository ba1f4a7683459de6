// The weighted sums of values of int8_attention_avx512_vnni.cc.
#ifndef THERMOCLINE_KERNELS_CPU_INT8_ATTENTION_VALUES_H_
#define THERMOCLINE_KERNELS_CPU_INT8_ATTENTION_VALUES_H_

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

// The scales of a group of values.
struct GroupScales {
  ValueRatios* ratios;                  // [v_blocks]
  alignas(64) float largest[kKvGroup];  // the largest finite one of a position
  bool all_finite;
};

// Of 16 positions; returns in which lanes all are finite.
inline __mmask16 ReadScales(const Groups& values, size_t g, size_t position,
                            GroupScales* scales) {
  const __m256i infinity = _mm256_set1_epi16(0x7C00);
  __mmask16 finite = FirstLanes(kLanes);
  __m256i magnitudes = _mm256_setzero_si256();
  for (size_t b = 0; b < values.num_blocks; ++b) {
    const __m256i magnitude = _mm256_and_si256(values.scales(g, b, position),
                                               _mm256_set1_epi16(0x7FFF));
    const __mmask16 lanes = _mm256_cmplt_epi16_mask(magnitude, infinity);
    magnitudes =
        _mm256_mask_max_epi16(magnitudes, lanes, magnitudes, magnitude);
    finite &= lanes;
  }
  const __m512 max = _mm512_cvtph_ps(magnitudes);
  _mm512_store_ps(scales->largest + position, max);
  // No scale but zero is smaller than the least half.
  const __m512 to_ratio = _mm512_div_ps(
      _mm512_set1_ps(32767.0f), _mm512_max_ps(max, _mm512_set1_ps(0x1p-24f)));
  for (size_t b = 0; b < values.num_blocks; ++b) {
    // What is not finite becomes the least integer.
    const __m512 ratio =
        _mm512_mul_ps(_mm512_cvtph_ps(values.scales(g, b, position)), to_ratio);
    _mm256_store_si256(
        reinterpret_cast<__m256i*>(scales->ratios[b].of + position),
        _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(ratio)));
  }
  return finite;
}

inline void ReadGroupScales(const Groups& values, size_t g, PieceAhead* ahead,
                            GroupScales* scales) {
  PrefetchScales(values.num_blocks, ahead);
  __mmask16 finite = FirstLanes(kLanes);
  for (size_t p = 0; p < kKvGroup; p += kLanes) {
    finite &= ReadScales(values, g, p, scales);
  }
  scales->all_finite = finite == FirstLanes(kLanes);
}

// Of the positions of a group from `begin` on, those of [first, end).
inline bool HasNotFinite(const ValueRatios& ratios, size_t begin, size_t first,
                         size_t end) {
  const size_t num_seen = end <= begin ? 0 : Min(end - begin, kKvGroup);
  for (size_t i = first <= begin ? 0 : first - begin; i < num_seen; ++i) {
    if (ratios.of[i] == kNotFinite) return true;
  }
  return false;
}

// A query's weights of a group times the largest scales, rounded against the
// greatest of them.
struct RoundedWeights {
  __m512i words[kVectors / 2];
  float unit;  // what 1 is worth in a word times a ratio
};

[[gnu::always_inline]] inline RoundedWeights Round(const float* weights,
                                                   const GroupScales& scales) {
  __m512 products[kVectors];
  __m512 top = _mm512_setzero_ps();
#pragma clang loop unroll(full)
  for (size_t i = 0; i < kVectors; ++i) {
    products[i] = _mm512_mul_ps(_mm512_load_ps(weights + i * kLanes),
                                _mm512_load_ps(scales.largest + i * kLanes));
    top = _mm512_max_ps(top, products[i]);
  }
  const float unit = _mm512_reduce_max_ps(top) / 32767;
  // Below, what there is cannot be seen, and the quotient would be infinite.
  const __m512 to_words = _mm512_set1_ps(unit > 1e-32f ? 1 / unit : 0.0f);
  const auto round = [&](size_t i) __attribute__((always_inline)) {
    return _mm512_cvtsepi32_epi16(
        _mm512_cvtps_epi32(_mm512_mul_ps(products[i], to_words)));
  };
  RoundedWeights out;
#pragma clang loop unroll(full)
  for (size_t i = 0; i < kVectors / 2; ++i) {
    out.words[i] = _mm512_inserti64x4(_mm512_castsi256_si512(round(2 * i)),
                                      round(2 * i + 1), 1);
  }
  out.unit = unit * (32768.0f / 32767.0f);
  return out;
}

// A query's weights for a block of a group: bytes of four positions in 32 bits,
// in the order that packing words leaves (PlaceOf).
struct WeightBytes {
  alignas(64) int32_t high[kKvGroup / 4];
  alignas(64) int32_t low[kKvGroup / 4];
};

// Where the weights of positions 4 t to 4 t + 3 are.
constexpr size_t PlaceOf(size_t t) {
  constexpr size_t kHalf = kKvGroup / 8;
  const size_t i = t % kHalf;
  return i / 2 * 4 + t / kHalf * 2 + i % 2;
}

[[gnu::always_inline]] inline void SplitBytes(const RoundedWeights& weights,
                                              const ValueRatios& ratios,
                                              WeightBytes* out) {
  const __m512i a =
      _mm512_mulhrs_epi16(weights.words[0], _mm512_load_si512(ratios.of));
  const __m512i b =
      _mm512_mulhrs_epi16(weights.words[1], _mm512_load_si512(ratios.of + 32));
  const __m512i low_bytes = _mm512_set1_epi16(0xFF);
  _mm512_store_si512(out->high, _mm512_packus_epi16(_mm512_srli_epi16(a, 8),
                                                    _mm512_srli_epi16(b, 8)));
  _mm512_store_si512(out->low,
                     _mm512_packus_epi16(_mm512_and_si512(a, low_bytes),
                                         _mm512_and_si512(b, low_bytes)));
}

// The integer sums of a query over a block of values: the halves of its
// columns.
struct Sums {
  [[gnu::always_inline]] void Clear() {
    high[0] = high[1] = low[0] = low[1] = _mm512_setzero_si512();
  }
  // Four positions; their weights are at `place`.
  [[gnu::always_inline]] void Add(const WeightBytes& weights, size_t place,
                                  __m512i first, __m512i second) {
    const __m512i h = _mm512_set1_epi32(weights.high[place]);
    const __m512i l = _mm512_set1_epi32(weights.low[place]);
    high[0] = _mm512_dpbusd_epi32(high[0], h, first);
    high[1] = _mm512_dpbusd_epi32(high[1], h, second);
    low[0] = _mm512_dpbusd_epi32(low[0], l, first);
    low[1] = _mm512_dpbusd_epi32(low[1], l, second);
  }
  [[gnu::always_inline]] void AddTo(float* out, float unit) const {
#pragma clang loop unroll(full)
    for (size_t half = 0; half < 2; ++half, out += kLanes) {
      const __m512 sum = _mm512_cvtepi32_ps(
          _mm512_add_epi32(_mm512_slli_epi32(high[half], 8), low[half]));
      _mm512_store_ps(
          out, _mm512_fmadd_ps(sum, _mm512_set1_ps(unit), _mm512_load_ps(out)));
    }
  }
  __m512i high[2], low[2];
};

// A block of a group of values of kPieces pieces, for kNum queries.
template <size_t kPieces, size_t kNum>
struct ValueBlock {
  PieceAhead* ahead;  // [kPieces]
  const std::byte* quants[kPieces];
  WeightBytes weights[kPieces][kNum];
  float units[kPieces][kNum];
  float* out[kPieces];  // of the first query; the next, out_stride later
  size_t out_stride;
};

// Adds the products of values and weights to the sums.
template <bool kPrefetches, size_t kPieces, size_t kNum>
[[gnu::always_inline]] inline void AddBlock(
    const ValueBlock<kPieces, kNum>& block) {
  Sums sums[kPieces][kNum];
#pragma clang loop unroll(full)
  for (size_t i = 0; i < kPieces; ++i) {
#pragma clang loop unroll(full)
    for (size_t j = 0; j < kNum; ++j) sums[i][j].Clear();
  }
  constexpr size_t kTurnQuads = kTurnLines / 2;
  for (size_t t = 0; t < kKvGroup / 4; t += kTurnQuads) {
    const size_t first_place = PlaceOf(t);
#pragma clang loop unroll(full)
    for (size_t i = 0; i < kPieces; ++i) {
      const std::byte* turn = block.quants[i] + t * 2 * kLineBytes;
      const Prefetching prefetching =
          kPrefetches ? block.ahead[i].Take(kTurnLines) : Prefetching();
#pragma clang loop unroll(full)
      for (size_t k = 0; k < kTurnQuads; ++k) {
        if constexpr (kPrefetches) {
          prefetching.ForLine(2 * k);
          prefetching.ForLine(2 * k + 1);
        }
        const __m512i first = _mm512_load_si512(turn + 2 * k * kLineBytes);
        const __m512i second =
            _mm512_load_si512(turn + (2 * k + 1) * kLineBytes);
#pragma clang loop unroll(full)
        for (size_t j = 0; j < kNum; ++j) {
          sums[i][j].Add(block.weights[i][j], first_place + PlaceOf(k), first,
                         second);
        }
      }
    }
  }
#pragma clang loop unroll(full)
  for (size_t i = 0; i < kPieces; ++i) {
#pragma clang loop unroll(full)
    for (size_t j = 0; j < kNum; ++j) {
      sums[i][j].AddTo(block.out[i] + j * block.out_stride, block.units[i][j]);
    }
  }
}

// Adds group g of the values of kPieces pieces to the sums of kNum queries from
// number `query`.
template <size_t kPieces, size_t kNum>
void AddGroup(const AttentionArgs& args, const Work& work, const Groups& values,
              size_t first_piece, size_t g, PieceAhead* ahead,
              const GroupScales* scales, size_t query) {
  const size_t begin = g * kKvGroup;
  RoundedWeights rounded[kPieces][kNum];
  ValueBlock<kPieces, kNum> block;
  block.ahead = ahead;
  block.out_stride = work.out_stride;
  for (size_t i = 0; i < kPieces; ++i) {
    const Groups piece = values.OfPiece(first_piece + i);
    const Work of_piece = work.OfPiece(first_piece + i);
    block.out[i] = of_piece.out + query * work.out_stride;
    block.quants[i] = piece.group(g) + ValueInGroup(values.num_blocks, 0, 0, 0);
    for (size_t j = 0; j < kNum; ++j) {
      rounded[i][j] = Round(of_piece.scores_of(query + j) + begin, scales[i]);
    }
  }
  for (size_t b = 0; b < values.num_blocks; ++b) {
    for (size_t i = 0; i < kPieces; ++i) {
      const ValueRatios& ratios = scales[i].ratios[b];
      for (size_t j = 0; j < kNum; ++j) {
        SplitBytes(rounded[i][j], ratios, &block.weights[i][j]);
        const bool is_finite =
            scales[i].all_finite ||
            !HasNotFinite(ratios, begin, args.FirstOf(query + j),
                          args.PositionsOf(query + j));
        block.units[i][j] = is_finite ? rounded[i][j].unit : __builtin_nanf("");
      }
    }
    if (query == 0) {
      AddBlock<true>(block);
    } else {
      AddBlock<false>(block);  // what is read next has been prefetched
    }
    for (size_t i = 0; i < kPieces; ++i) {
      block.quants[i] += kKvGroup * kBlock;
      block.out[i] += kBlock;
    }
  }
}

inline void AllValues(const AttentionArgs& args, const Work& work,
                      const Groups& values, PieceAhead* ahead) {
  GroupScales scales[kAttentionPieces];
  for (size_t i = 0; i < work.num_pieces; ++i) {
    scales[i].ratios = work.ratios + i * values.num_blocks;
  }
  for (size_t g = values.begin; g < values.num_groups; ++g) {
    ForEachBlock<kValueColumns>(
        work, [&]<size_t kPieces, size_t kNum>(size_t piece, size_t query) {
          for (size_t i = piece; i < piece + kPieces && query == 0; ++i) {
            ReadGroupScales(values.OfPiece(i), g, &ahead[i], &scales[i]);
          }
          AddGroup<kPieces, kNum>(args, work, values, piece, g, &ahead[piece],
                                  &scales[piece], query);
        });
  }
}

}  // namespace
}  // namespace thermocline::kernels

#endif

#endif  // THERMOCLINE_KERNELS_CPU_INT8_ATTENTION_VALUES_H_
