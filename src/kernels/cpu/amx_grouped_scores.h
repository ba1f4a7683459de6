// From keys to weights, for amx_grouped_attention.cc: a tile has 16 keys, 32
// elements of them; it meets a tile with the same elements of up to 8 queries
// in its columns, of which the upper halves are in the first 8, the lower ones
// in the others.
#ifndef THERMOCLINE_KERNELS_CPU_AMX_GROUPED_SCORES_H_
#define THERMOCLINE_KERNELS_CPU_AMX_GROUPED_SCORES_H_

// Empty unless compiled for it, so that it compiles alone anywhere.
#if defined(__AVX512BF16__) && defined(__AMX_TILE__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/ahead.h"
#include "kernels/cpu/amx_attention_split.h"
#include "kernels/cpu/amx_grouped_call.h"
#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/attention_weights_avx512.h"
#include "kernels/kernels.h"

// Unnamed in a header for the reason that int8_avx512.h gives.
namespace thermocline::kernels {
namespace {

// The weights of all queries, from their scores with all keys of kWidth
// elements.
template <size_t kWidth>
class GroupedScores : private AmxGroupedCall {
 public:
  explicit GroupedScores(const AttentionArgs& args) : AmxGroupedCall(args) {}

  StreamsAhead Ahead() const {
    const HalfRows keys = Keys();
    const auto stream = [](const HalfRows& rows) {
      return StreamsAhead::Stream{rows.pages + rows.begin / kKvPage,
                                  kKvPage * kRowBytes,
                                  (rows.num_rows - rows.begin) * kRowBytes};
    };
    // Where nothing comes next, what was read already.
    const std::byte* next =
        args_.next_k != nullptr ? args_.next_k : keys.row(keys.begin);
    return {stream(keys), stream(Values()), reinterpret_cast<uintptr_t>(next),
            kKeyBytesAhead};
  }

  void Run(StreamsAhead& ahead) const {
    for (size_t block = 0; block < num_blocks_; ++block) RoundQueries(block);
    ScoreAll(Keys(), ahead);
    if (args_.logit_cap != 0) {
      ForEachQuery([&](size_t piece, size_t block, size_t i) {
        CapAll(piece, block, i);
      });
    }
    ForEachQuery([&](size_t piece, size_t block, size_t i) {
      FindMax(piece, block, i);
    });
    // From the distance of keys to that of values, but no more than they are.
    const size_t num_bytes = Min(kValueBytesAhead - kKeyBytesAhead,
                                 (Values().num_rows - begin_) * kRowBytes);
    const size_t num_lines = CeilDiv(
        LinesOf(num_bytes), args_.num_pieces * num_blocks_ * block_queries_);
    ForEachQuery([&](size_t piece, size_t block, size_t i) {
      for (size_t line = 0; line < num_lines; ++line) {
        PrefetchLine<2>(ahead.Take(1));
      }
      Weigh(piece, block, i);
    });
  }

 private:
  static constexpr size_t kSteps = kWidth / kStep;
  static constexpr size_t kRowBytes = kWidth * sizeof(uint16_t);
  static constexpr size_t kRows = kLinesBetween / kSteps;
  static_assert(kRows * kSteps == kLinesBetween);
  // As many pieces as AttentionArgs allows so many queries.
  static_assert(Fits(kWidth, 8, 1) && Fits(kWidth, 4, 2) &&
                Fits(kWidth, 3, 3) && Fits(kWidth, 2, 4));

  template <class Function>
  [[gnu::always_inline]] void ForEachQuery(const Function& f) const {
    for (size_t piece = 0; piece < args_.num_pieces; ++piece) {
      for (size_t block = 0; block < num_blocks_; ++block) {
        for (size_t i = 0; i < block_queries_; ++i) f(piece, block, i);
      }
    }
  }

  // Those of the first block are used later, so the others have another place.
  std::byte* sums_of(size_t block) const {
    return block == 0 ? sums_ : sums_ + kTileBytes;
  }

  // Of each step both halves side by side.
  void RoundQueries(size_t block) const {
    for (size_t step = 0; step < kSteps; ++step) {
      __m512i columns[kTile];
      for (size_t i = 0; i < kBlock; ++i) {
        const Halves halves = RoundQuery(block, i, step);
        columns[i] = halves.upper;
        columns[kBlock + i] = halves.lower;
      }
      Transpose(columns);
      std::byte* line = query_tiles(block) + step * kTileBytes;
      for (size_t i = 0; i < kTile; ++i, line += kTileLineBytes) {
        _mm512_store_si512(line, columns[i]);
      }
    }
  }

  // Of all pieces, which follow each other, 16 keys at a time.
  void ScoreAll(const HalfRows& keys, StreamsAhead& ahead) const {
    const size_t first = keys.begin / kTile;
    const size_t num_units = CeilDiv(keys.num_rows, kTile);
    _tile_loadd(4, queries_, kTileLineBytes);
    _tile_loadd(5, queries_ + kTileBytes, kTileLineBytes);
    if constexpr (kSteps > 2) {
      _tile_loadd(6, queries_ + 2 * kTileBytes, kTileLineBytes);
      _tile_loadd(7, queries_ + 3 * kTileBytes, kTileLineBytes);
    }
    ScoreUnit<true, false>(keys, first, ahead);
    for (size_t unit = first + 1; unit < num_units; ++unit) {
      ScoreUnit<true, true>(keys, unit, ahead);
    }
    ScoreUnit<false, true>(keys, num_units, ahead);
    StoreScores(num_units - 1, 0);
  }

  // Splits 16 keys, and multiplies those before them by the first block.
  //
  // Here and in SumUnit() what is needed between is copied to locals, so that
  // it stays in registers: a store of bytes may change any member.
  template <bool kSplit, bool kMultiply>
  [[gnu::always_inline]] void ScoreUnit(const HalfRows& keys, size_t unit,
                                        StreamsAhead& ahead) const {
    alignas(kLineBytes) std::byte tail[kTile * kRowBytes];
    const std::byte* const before = chunk(unit - 1);
    std::byte* const lines = chunk(unit);
    const std::byte* const first =
        kSplit ? WholeRows<kTile, kRowBytes>(keys, unit, tail) : nullptr;
    const uintptr_t behind =
        kSplit ? RowsBehind<kTile, kRowBytes>(keys, unit, first) : 0;
    const uintptr_t prefetched = kSplit ? ahead.Take(kSteps * kTile) : 0;
    const auto split = [=](size_t part) __attribute__((always_inline)) {
      if constexpr (kSplit) {
#pragma GCC unroll 8
        for (size_t i = part * kRows; i < (part + 1) * kRows; ++i) {
          SplitKeyAndPrefetch(first + i * kRowBytes, prefetched + i * kRowBytes,
                              Near<kTile, kRowBytes>(first, behind, i),
                              lines + i * kTileLineBytes);
        }
      }
    };
    if constexpr (kMultiply) _tile_loadd(0, kZeros, 0);
#pragma GCC unroll 4
    for (size_t step = 0; step < kSteps; ++step) {
      split(2 * step);
      if constexpr (kMultiply) {
        // The sums of that unit are there by now.
        if (step == kSteps / 2 && unit >= begin_ / kTile + 2) {
          StoreScores(unit - 2, 0);
        }
        MultiplyHalf<1>(before + step * kHalfTiles, step);
      }
      split(2 * step + 1);
      if constexpr (kMultiply) {
        MultiplyHalf<2>(before + step * kHalfTiles + kTileBytes, step);
      }
    }
    if constexpr (kMultiply) {
      _tile_stored(0, sums_of(0), kTileLineBytes);
      for (size_t block = 1; block < num_blocks_; ++block) {
        ScoreOtherBlock(unit - 1, block);
      }
    }
  }

  // 32 elements of 16 keys by those of the first block's queries.
  template <int kTileOfKeys>
  [[gnu::always_inline]] static void MultiplyHalf(const std::byte* keys,
                                                  size_t step) {
    _tile_loadd(kTileOfKeys, keys, kTileLineBytes);
    switch (step) {
      case 0:
        _tile_dpbf16ps(0, kTileOfKeys, 4);
        break;
      case 1:
        _tile_dpbf16ps(0, kTileOfKeys, 5);
        break;
      case 2:
        _tile_dpbf16ps(0, kTileOfKeys, 6);
        break;
      default:
        _tile_dpbf16ps(0, kTileOfKeys, 7);
        break;
    }
  }

  [[gnu::always_inline]] static void SplitKeyAndPrefetch(const std::byte* key,
                                                         uintptr_t prefetched,
                                                         uintptr_t near,
                                                         std::byte* line) {
#pragma GCC unroll 4
    for (size_t step = 0; step < kSteps; ++step) {
      PrefetchLine<2>(prefetched + step * kLineBytes);
      PrefetchLine<3>(near + step * kLineBytes);
      SplitKeyStep(key + step * kTileLineBytes, line + step * kHalfTiles);
    }
  }

  void ScoreOtherBlock(size_t unit, size_t block) const {
    _tile_loadd(0, kZeros, 0);
    for (size_t step = 0; step < kSteps; ++step) {
      const std::byte* keys = chunk(unit) + step * kHalfTiles;
      _tile_loadd(3, query_tiles(block) + step * kTileBytes, kTileLineBytes);
      _tile_loadd(1, keys, kTileLineBytes);
      _tile_dpbf16ps(0, 1, 3);
      _tile_loadd(2, keys + kTileBytes, kTileLineBytes);
      _tile_dpbf16ps(0, 2, 3);
    }
    _tile_stored(0, sums_of(block), kTileLineBytes);
    StoreScores(unit, block);
  }
  [[gnu::always_inline]] void StoreScores(size_t unit, size_t block) const {
    const std::byte* sums = sums_of(block);
    __m512i scores[kTile];  // of both halves of every query
    for (size_t i = 0; i < kTile; ++i) {
      scores[i] = _mm512_load_si512(sums + i * kTileLineBytes);
    }
    Transpose(scores);
    std::byte* line = weight_tile(unit / 2, block) + unit % 2 * kTileLineBytes;
    for (size_t i = 0; i < kBlock; ++i) {
      _mm512_store_ps(line + i * 2 * kTileLineBytes,
                      _mm512_add_ps(_mm512_castsi512_ps(scores[i]),
                                    _mm512_castsi512_ps(scores[kBlock + i])));
    }
  }

  // The lines of a query's scores with a piece that some query sees.
  std::byte* lines_of(size_t piece, size_t block, size_t i) const {
    return weight_tile(piece * kTurns + begin_ / kStep, block) +
           i * 2 * kTileLineBytes;
  }

  void CapAll(size_t piece, size_t block, size_t i) const {
    std::byte* line = lines_of(piece, block, i);
    for (size_t p = begin_; p < num_positions_; p += kStep) {
      Cap(args_.logit_cap, reinterpret_cast<float*>(line));
      Cap(args_.logit_cap, reinterpret_cast<float*>(line + kTileLineBytes));
      line += kTileBytes;
    }
  }

  // Begins a query's sum over a piece with its largest score.
  void FindMax(size_t piece, size_t block, size_t i) const {
    const size_t query = FirstOf(block) + i;
    const Seen seen(args_, query);
    const std::byte* lines = lines_of(piece, block, i);
    __m512 max[2];
    max[0] = max[1] = _mm512_set1_ps(-3.40282347e38f);
    for (size_t p = begin_; p < seen.end; p += kStep, lines += kTileBytes) {
      max[0] = MaxOfLanes(max[0], seen.Lanes(p), lines);
      max[1] =
          MaxOfLanes(max[1], seen.Lanes(p + kLanes), lines + kTileLineBytes);
    }
    const __m512 largest = _mm512_max_ps(max[0], max[1]);
    _mm512_store_ps(
        out_of(piece, query) + kWidth,
        _mm512_maskz_mov_ps(1, _mm512_set1_ps(_mm512_reduce_max_ps(largest))));
  }
  // Its scores become weights, in both halves. Those of positions that it does
  // not see are zero.
  void Weigh(size_t piece, size_t block, size_t i) const {
    const size_t query = FirstOf(block) + i;
    const Seen seen(args_, query);
    std::byte* line = lines_of(piece, block, i);
    float* out = out_of(piece, query);
    const float largest = out[kWidth];
    __m512 sum = _mm512_setzero_ps();
    for (size_t p = begin_; p < num_positions_;
         p += kStep, line += kTileBytes) {
      const __m512 first = WeightsOf(line, largest, seen.Lanes(p));
      const __m512 second =
          WeightsOf(line + kTileLineBytes, largest, seen.Lanes(p + kLanes));
      sum = _mm512_add_ps(sum, _mm512_add_ps(first, second));
      const Halves halves = SplitInOrder(first, second);
      _mm512_store_si512(line, halves.upper);
      _mm512_store_si512(line + kTileLineBytes, halves.lower);
    }
    out[kWidth + 1] = _mm512_reduce_add_ps(sum);
  }
  // The positions that a query sees.
  struct Seen {
    Seen(const AttentionArgs& args, size_t query)
        : begin(args.FirstOf(query)), end(args.PositionsOf(query)) {}
    // Of 16 from p on.
    __mmask16 Lanes(size_t p) const {
      return Before(end, p) & ~Before(begin, p);
    }
    static __mmask16 Before(size_t position, size_t p) {
      return FirstLanes(position <= p ? 0 : Min(position - p, kLanes));
    }
    size_t begin;
    size_t end;
  };
  static __m512 MaxOfLanes(__m512 max, __mmask16 lanes,
                           const std::byte* scores) {
    return _mm512_mask_max_ps(max, lanes, max, _mm512_load_ps(scores));
  }
  static __m512 WeightsOf(const std::byte* scores, float largest,
                          __mmask16 lanes) {
    return _mm512_maskz_mov_ps(
        lanes,
        Weight(_mm512_sub_ps(_mm512_load_ps(scores), _mm512_set1_ps(largest))));
  }
};

}  // namespace
}  // namespace thermocline::kernels

#endif

#endif  // THERMOCLINE_KERNELS_CPU_AMX_GROUPED_SCORES_H_
