// Attention over keys and values in F16 in AMX tiles of bf16.
//
// A number of F16 is the sum of two of bf16, its halves; queries and weights
// are rounded to two. Of the four products of halves three are computed: the
// fourth is hardly larger than what rounding left. A tile instruction computes
// 32 terms of 16 by 16 sums in 16 cycles, so three of them are still several
// times as fast as vectors.
//
// Scores: a tile has 16 keys as they lie, 32 elements of them; it meets a tile
// with the same elements of 16 queries in its columns. Values: a tile has 16
// queries' weights of 32 positions and meets a tile with 16 columns of them.
// Either way two tiles meet two others.
//
// Keys are split 32 at a time, values 32 columns of 128 at a time, into the
// first levels of the cache, where all queries meet them. (Splitting between
// the tiles' instructions took longer than one after the other: of many
// queries the tiles' work is the larger part.)
//
// Every query's sums are of its own and in one order: they do not depend on
// what other queries are in the call. But if any of the call's sums is not
// finite, all are computed again as floats.
#include "kernels/cpu/amx_attention.h"

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/amx_attention_call.h"
#include "kernels/cpu/amx_attention_split.h"
#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/attention_weights_avx512.h"
#include "kernels/cpu/int8_attention.h"

namespace thermocline::kernels {
namespace {

// Split at a time.
constexpr size_t kKeys = 2 * kTile;
constexpr size_t kValues = 4 * kStep;
constexpr size_t kColumns = 2 * kTile;
constexpr size_t kValueSteps = kValues / kStep;

// The three products of a step: the loaders get the offset of a half.
template <class LoadA, class LoadB, class Multiply>
[[gnu::always_inline]] inline void MultiplyHalves(const LoadA& load_a,
                                                  const LoadB& load_b,
                                                  const Multiply& multiply) {
  load_a(0);
  load_b(0);
  multiply();
  load_b(kTileBytes);
  multiply();
  load_a(kTileBytes);
  load_b(0);
  multiply();
}

class Call : private AmxAttentionCall {
 public:
  explicit Call(const AttentionArgs& args)
      : AmxAttentionCall(args, kTile),
        scores_(args.scratch),
        queries_(reinterpret_cast<std::byte*>(
            scores_ + kAttentionQueries * kAttentionScoresStride)),
        tiles_(queries_ + kMaxBlocks * key_steps_ * kHalfTiles),
        chunk_(tiles_ + kMaxBlocks * kValueSteps * kHalfTiles) {}

  // As Finish().
  bool Run() {
    for (size_t block = 0; block < num_blocks_; ++block) RoundQueries(block);
    Configure(kTile);
    const HalfRows keys = Keys();
    for (size_t i = 0; i < args_.num_pieces; ++i) ScoreAll(keys, i);
    for (size_t i = 0; i < args_.num_pieces; ++i) Weigh(i);
    Configure(block_queries_);
    const HalfRows values = Values();
    for (size_t i = 0; i < args_.num_pieces; ++i) SumAll(values, i);
    _tile_release();
    return Finish();
  }

 private:
  static constexpr size_t kMaxBlocks = CeilDiv(kAttentionQueries, kTile);
  // In the scratch: 32 floats times the width of keys or more are left for what
  // is split.
  static_assert(kMaxBlocks * kValueSteps * kHalfTiles <=
                kAttentionTileFloats * sizeof(float));
  static_assert(kMaxBlocks * kHalfTiles / kStep <=
                kAttentionQueries * sizeof(float));
  static_assert(kKeys * kHalfTiles / kTile <= 32 * kStep * sizeof(float));
  static_assert(kValueSteps * (kColumns / kTile) * kHalfTiles <=
                32 * 128 * sizeof(float));

  float* scores_of(size_t piece, size_t query) const {
    return scores_ + (piece * num_queries_ + query) * kAttentionScoresStride;
  }
  std::byte* query_tiles(size_t block) const {
    return queries_ + block * key_steps_ * kHalfTiles;
  }
  std::byte* weight_tiles(size_t block) const {
    return tiles_ + block * kValueSteps * kHalfTiles;
  }

  // So many lines in tiles 0 to 5, 16 in 6 and 7.
  static void Configure(size_t num_lines) {
    TileConfig config;
    for (size_t i = 0; i < 6; ++i) {
      config.num_lines[i] = static_cast<uint8_t>(num_lines);
    }
    _tile_loadconfig(&config);
  }

  // Of each step both halves.
  void RoundQueries(size_t block) const {
    for (size_t step = 0; step < key_steps_; ++step) {
      __m512i upper[kTile];
      __m512i lower[kTile];
      for (size_t i = 0; i < kTile; ++i) {
        const Halves halves = RoundQuery(block, i, step);
        upper[i] = halves.upper;
        lower[i] = halves.lower;
      }
      Transpose(upper);
      Transpose(lower);
      std::byte* line = query_tiles(block) + step * kHalfTiles;
      for (size_t i = 0; i < kTile; ++i, line += kTileLineBytes) {
        Store({upper[i], lower[i]}, line);
      }
    }
  }

  void ScoreAll(const HalfRows& keys, size_t piece) const {
    const size_t num_multiplies = CeilDiv(num_blocks_, 2) * key_steps_ * 3;
    const HalfRows next = Values();
    for (size_t p = keys.begin; p < num_positions_; p += kKeys) {
      const size_t first = piece * kAttentionPiece + p;
      const std::byte* const rows = keys.row(first);
      LinesToPrefetch ahead(keys, first + kKeys, kKeys, next);
      const size_t num_lines = CeilDiv(ahead.num_left(), num_multiplies);
      for (size_t i = 0; i < kKeys; ++i) {
        SplitKey(
            first + i < keys.num_rows ? rows + i * keys.row_bytes : nullptr,
            key_steps_,
            chunk_ + i / kTile * key_steps_ * kHalfTiles +
                i % kTile * kTileLineBytes);
      }
      for (size_t block = 0; block < num_blocks_; block += 2) {
        if (block + 1 < num_blocks_) {
          ScoreBlocks<2>(block, ahead, num_lines);
        } else {
          ScoreBlocks<1>(block, ahead, num_lines);
        }
        for (size_t i = block; i < Min(block + 2, num_blocks_); ++i) {
          const std::byte* sums = tiles_ + i % 2 * 2 * kTileBytes;
          float* scores = scores_of(piece, FirstOf(i)) + p;
          StoreScores(sums, scores);
          StoreScores(sums + kTileBytes, scores + kTile);
        }
      }
    }
  }

  // Sums of a block of queries and the keys at hand in tiles 0 and 1, of the
  // next in 2 and 3.
  template <size_t kBlocks>
  void ScoreBlocks(size_t block, LinesToPrefetch& ahead,
                   size_t num_lines) const {
    const auto multiply = [&]() __attribute__((always_inline)) {
      ahead.Prefetch(num_lines);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 5, 6);
      if constexpr (kBlocks == 2) {
        _tile_dpbf16ps(2, 4, 7);
        _tile_dpbf16ps(3, 5, 7);
      }
    };
    const size_t key_block = key_steps_ * kHalfTiles;
    const std::byte* keys = chunk_;
    const std::byte* queries = query_tiles(block);
    const auto load_keys = [&](size_t half) __attribute__((always_inline)) {
      _tile_loadd(4, keys + half, kTileLineBytes);
      _tile_loadd(5, keys + half + key_block, kTileLineBytes);
    };
    const auto load_queries = [&](size_t half) __attribute__((always_inline)) {
      _tile_loadd(6, queries + half, kTileLineBytes);
      if constexpr (kBlocks == 2) {
        _tile_loadd(7, queries + half + key_block, kTileLineBytes);
      }
    };
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (size_t step = 0; step < key_steps_; ++step) {
      MultiplyHalves(load_keys, load_queries, multiply);
      keys += kHalfTiles;
      queries += kHalfTiles;
    }
    _tile_stored(0, tiles_, kTileLineBytes);
    _tile_stored(1, tiles_ + kTileBytes, kTileLineBytes);
    if constexpr (kBlocks == 2) {
      _tile_stored(2, tiles_ + 2 * kTileBytes, kTileLineBytes);
      _tile_stored(3, tiles_ + 3 * kTileBytes, kTileLineBytes);
    }
  }

  // Sums in tile [key][query].
  void StoreScores(const std::byte* sums, float* scores) const {
    __m512i lines[kTile];
    for (size_t i = 0; i < kTile; ++i) {
      lines[i] = _mm512_load_si512(sums + i * kTileLineBytes);
    }
    Transpose(lines);
    for (size_t j = 0; j < block_queries_; ++j) {
      _mm512_store_si512(scores + j * kAttentionScoresStride, lines[j]);
    }
  }

  // The weights of a piece, for whole steps of positions; clears its sums.
  void Weigh(size_t piece) const {
    for (size_t q = 0; q < num_queries_; ++q) {
      BeginSum(args_, q, CeilDiv(num_positions_, kStep) * kStep,
               scores_of(piece, q), out_of(piece, q));
    }
  }

  void SumAll(const HalfRows& values, size_t piece) const {
    const HalfRows next = NextKeys();
    for (size_t p = values.begin; p < num_positions_; p += kValues) {
      const size_t num_steps =
          Min(CeilDiv(num_positions_ - p, kStep), kValueSteps);
      const size_t first = piece * kAttentionPiece + p;
      LinesToPrefetch ahead(values, first + kValues, kValues, next);
      const size_t num_multiplies =
          CeilDiv(num_blocks_, 2) * num_steps * 3 * (args_.v_width / kColumns);
      const size_t num_lines = CeilDiv(ahead.num_left(), num_multiplies);
      for (size_t block = 0; block < num_blocks_; ++block) {
        RoundWeights(block, scores_of(piece, FirstOf(block)) + p, num_steps);
      }
      for (size_t column = 0; column < args_.v_width; column += kColumns) {
        for (size_t step = 0; step < num_steps; ++step) {
          SplitStep(values, first + step * kStep, column,
                    chunk_ + step * (kColumns / kTile) * kHalfTiles);
        }
        for (size_t block = 0; block < num_blocks_; block += 2) {
          if (block + 1 < num_blocks_) {
            SumBlocks<2>(piece, block, column, num_steps, ahead, num_lines);
          } else {
            SumBlocks<1>(piece, block, column, num_steps, ahead, num_lines);
          }
        }
      }
    }
  }

  // 32 values from number r on, the columns at hand.
  static void SplitStep(const HalfRows& values, size_t r, size_t column,
                        std::byte* lines) {
    const std::byte* rows = values.row(r) + column * sizeof(uint16_t);
    const size_t count = Min(values.num_rows - r, kStep);
    for (size_t i = 0; i < kTile; ++i, lines += kTileLineBytes) {
      const std::byte* even = rows + 2 * i * values.row_bytes;
      SplitValues<kColumns / kTile>(
          2 * i < count ? even : nullptr,
          2 * i + 1 < count ? even + values.row_bytes : nullptr, lines);
    }
  }

  // [step] of both halves: a line has a query's weights of 32 positions; of a
  // query that another block has too, nothing.
  void RoundWeights(size_t block, const float* weights,
                    size_t num_steps) const {
    const size_t num_shared = NumShared(block);
    for (size_t j = 0; j < block_queries_; ++j) {
      std::byte* line = weight_tiles(block) + j * kTileLineBytes;
      for (size_t step = 0; step < num_steps; ++step, line += kHalfTiles) {
        const float* from = weights + j * kAttentionScoresStride + step * kStep;
        Store(j < num_shared ? Halves{}
                             : SplitInOrder(_mm512_load_ps(from),
                                            _mm512_load_ps(from + kLanes)),
              line);
      }
    }
  }

  // Adds the columns at hand to the sums of a block of queries, in tiles 0 and
  // 1, and of the next, in 2 and 3.
  template <size_t kBlocks>
  void SumBlocks(size_t piece, size_t block, size_t column, size_t num_steps,
                 LinesToPrefetch& ahead, size_t num_lines) const {
    const size_t stride = out_stride_ * sizeof(float);
    float* out = out_of(piece, FirstOf(block)) + column;
    float* next_out = out_of(piece, FirstOf(block + kBlocks - 1)) + column;
    _tile_loadd(0, out, stride);
    _tile_loadd(1, out + kTile, stride);
    if constexpr (kBlocks == 2) {
      _tile_loadd(2, next_out, stride);
      _tile_loadd(3, next_out + kTile, stride);
    }
    const auto multiply = [&]() __attribute__((always_inline)) {
      ahead.Prefetch(num_lines);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      if constexpr (kBlocks == 2) {
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
      }
    };
    const std::byte* values = chunk_;
    const std::byte* weights = weight_tiles(block);
    const auto load_weights = [&](size_t half) __attribute__((always_inline)) {
      _tile_loadd(4, weights + half, kTileLineBytes);
      if constexpr (kBlocks == 2) {
        _tile_loadd(5, weights + half + kValueSteps * kHalfTiles,
                    kTileLineBytes);
      }
    };
    const auto load_values = [&](size_t half) __attribute__((always_inline)) {
      _tile_loadd(6, values + half, kTileLineBytes);
      _tile_loadd(7, values + half + kHalfTiles, kTileLineBytes);
    };
    for (size_t step = 0; step < num_steps; ++step) {
      MultiplyHalves(load_weights, load_values, multiply);
      weights += kHalfTiles;
      values += kColumns / kTile * kHalfTiles;
    }
    // Of a query in both blocks, what the first one has stays.
    if constexpr (kBlocks == 2) {
      _tile_stored(2, next_out, stride);
      _tile_stored(3, next_out + kTile, stride);
    }
    _tile_stored(0, out, stride);
    _tile_stored(1, out + kTile, stride);
  }

  float* const scores_;  // [num_queries, kAttentionScoresStride] of every piece
  std::byte* const queries_;
  std::byte* const tiles_;  // of sums of scores; of weights, [blocks]
  std::byte* const chunk_;  // what was split of keys or values
};

bool IsForTiles(const AttentionArgs& args) {
  return args.k_dtype == DType::kF16 && args.v_dtype == DType::kF16 &&
         args.k_width % kStep == 0 && args.v_width % kColumns == 0;
}

// With fewer heads memory is the limit of floats as well. The number is the
// model's, not the batch's, so that bits do not depend on other rows.
constexpr size_t kGroupedHeads = 6;

void FewAttention(const AttentionArgs& args) {
  if (args.num_heads < kGroupedHeads || args.NothingIsSeen() ||
      !AmxGroupedAttention(args)) {
    Avx512VnniAttention(args);
  }
}

void Attention(const AttentionArgs& args) {
  if (!IsForTiles(args) || args.NothingIsSeen() || !Call(args).Run()) {
    Avx512VnniAttention(args);
  }
}

}  // namespace

void FillAmxAttention(KernelTable& table) {
  table.attention = FewAttention;
  table.large_batch_attention = Attention;
}

}  // namespace thermocline::kernels
