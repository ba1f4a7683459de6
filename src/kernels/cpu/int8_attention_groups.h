// Pieces of a KV cache in groups of positions, and the scratch of a call: what
// scores and values of int8_attention_avx512_vnni.cc share.
#ifndef THERMOCLINE_KERNELS_CPU_INT8_ATTENTION_GROUPS_H_
#define THERMOCLINE_KERNELS_CPU_INT8_ATTENTION_GROUPS_H_

// Empty unless compiled for AVX-512 with VNNI, so that it compiles alone
// anywhere.
#if defined(__AVX512VNNI__) && defined(__AVX512BW__) && defined(__AVX512DQ__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/ahead.h"
#include "kernels/cpu/attention_weights_avx512.h"
#include "kernels/kernels.h"
#include "kernels/kv_group.h"
#include "tensor/blocks.h"

// Unnamed in a header on purpose: the including file must keep its own copy,
// compiled with its own flags.
namespace thermocline::kernels {
namespace {

// Queries, or queries times pieces, side by side: as many as have their sums in
// registers.
constexpr size_t kScoreColumns = 8;
constexpr size_t kValueColumns = 4;
constexpr size_t kVectors = kKvGroup / kLanes;  // of positions
constexpr size_t kPieceGroups = kAttentionPiece / kKvGroup;
// Read of a piece in turn: what a block has of 16 keys, or 16 of its values.
constexpr size_t kTurnLines = 8;
constexpr size_t kTurnBytes = kTurnLines * kLineBytes;
// Prefetched ahead of what is read, in all pieces together, into the second
// level of the cache; and of each piece into the first.
constexpr size_t kFarBytes = 8192;
constexpr size_t kNearBytes = 1024;
constexpr int16_t kNotFinite = INT16_MIN;

// 32 elements of a query: scale * quants[i], and what a sum of products begins
// with, because keys are stored 128 too large.
struct QueryBlock {
  int8_t quants[kBlock];
  int32_t offset;
  float scale;
};

// The scales of a block of a group of values, relative to the largest of their
// positions: 32767 is 1. kNotFinite where the scale was NaN or infinite.
struct alignas(64) ValueRatios {
  int16_t of[kKvGroup];
};

inline int32_t LoadI32(const void* p) {
  int32_t value;
  __builtin_memcpy(&value, p, sizeof(value));
  return value;
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

// Keys or values of a piece as they lie in the cache.
struct Groups {
  const std::byte* const* pages;
  size_t group_bytes;
  size_t begin;  // the first group that some query sees part of
  size_t num_groups;
  size_t num_blocks;

  const std::byte* group(size_t g) const { return pages[g]; }

  __m256i scales(size_t g, size_t block_idx, size_t position) const {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(
        group(g) + ScaleInGroup(block_idx, position)));
  }

  [[gnu::always_inline]] Groups OfPiece(size_t piece_idx) const {
    Groups piece = *this;
    piece.pages += piece_idx * kPieceGroups;
    return piece;
  }

  StreamsAhead::Stream Stream() const {
    return {pages + begin, group_bytes, (num_groups - begin) * group_bytes};
  }
};

// Lines that are prefetched while others are read.
struct Prefetching {
  uintptr_t far;
  uintptr_t near;
  [[gnu::always_inline]] void ForLine(size_t i) const {
    PrefetchLine<2>(far + i * kLineBytes);
    PrefetchLine<3>(near + i * kLineBytes);
  }
};

// Where lines are prefetched while keys and values of a piece are read, once
// each.
struct PieceAhead {
  StreamsAhead far;
  StreamsAhead near;
  [[gnu::always_inline]] Prefetching Take(size_t num_lines) {
    return {far.Take(num_lines), near.Take(num_lines)};
  }
};

// Prefetches while the scales of a group are read.
inline void PrefetchScales(size_t num_blocks, PieceAhead* ahead) {
  const size_t num_lines = LinesOf(ScaleInGroup(num_blocks, 0));
  const Prefetching prefetching = ahead->Take(num_lines);
  for (size_t i = 0; i < num_lines; ++i) prefetching.ForLine(i);
}

// A call's scratch, and where its sums go.
struct Work {
  explicit Work(const AttentionArgs& args)
      : num_queries(args.num_tokens * args.num_heads),
        num_pieces(args.num_pieces),
        out(args.out),
        out_stride(PartialAttentionFloats(args.v_width)),
        out_piece_stride(args.out_piece_stride),
        scores(args.scratch),
        ratios(reinterpret_cast<ValueRatios*>(
            scores + kAttentionQueries * kAttentionScoresStride)),
        queries(reinterpret_cast<QueryBlock*>(
            ratios + kAttentionPieces * (args.v_width / kBlock))) {}

  float* scores_of(size_t query) const {
    return scores + query * kAttentionScoresStride;
  }

  // With the scores and sums of that piece.
  Work OfPiece(size_t piece_idx) const {
    Work work = *this;
    work.scores += piece_idx * num_queries * kAttentionScoresStride;
    work.out += piece_idx * out_piece_stride;
    return work;
  }

  size_t num_queries;
  size_t num_pieces;
  float* out;
  size_t out_stride;
  size_t out_piece_stride;
  // [num_queries, kAttentionScoresStride] of every piece; then weights.
  float* scores;
  ValueRatios* ratios;  // [kAttentionPieces, v_blocks]
  QueryBlock* queries;  // [k_blocks, num_queries]
};
static_assert(kAttentionQueries * sizeof(QueryBlock) <=
                  kAttentionQueries * kBlock * sizeof(float) +
                      4 * kBlock * sizeof(float),
              "as much as AttentionScratchFloats() gives a block of keys");
static_assert(kAttentionPieces * sizeof(ValueRatios) <=
                  4 * kBlock * sizeof(float),
              "likewise of values");

// Calls f with constant numbers of pieces and queries, at most kColumns
// together, and the first ones, for all pieces and all queries of each.
template <size_t kColumns, class Function>
[[gnu::always_inline]] inline void ForEachBlock(const Work& work,
                                                const Function& f) {
  const size_t together = kColumns / Min(work.num_queries, kColumns);
  for (size_t i = 0; i < work.num_pieces; i += together) {
    WithNumber<Min(kColumns, kAttentionPieces)>(
        Min(work.num_pieces - i, together), [&]<size_t kPieces>() {
          constexpr size_t kQueries = kColumns / kPieces;
          for (size_t j = 0; j < work.num_queries; j += kQueries) {
            WithNumber<kQueries>(Min(work.num_queries - j, kQueries),
                                 [&]<size_t kNum>() {
                                   f.template operator()<kPieces, kNum>(i, j);
                                 });
          }
        });
  }
}

}  // namespace
}  // namespace thermocline::kernels

#endif

#endif  // THERMOCLINE_KERNELS_CPU_INT8_ATTENTION_GROUPS_H_
