// From weights to sums, for amx_grouped_attention.cc: a tile has up to 8
// queries' weights of 32 positions, both halves of each, and meets tiles with
// 16 columns of the values.
#ifndef THERMOCLINE_KERNELS_CPU_AMX_GROUPED_SUMS_H_
#define THERMOCLINE_KERNELS_CPU_AMX_GROUPED_SUMS_H_

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

// The weighted sums of all values of kWidth elements.
template <size_t kWidth>
class GroupedSums : private AmxGroupedCall {
 public:
  using AmxGroupedCall::Finish;

  explicit GroupedSums(const AttentionArgs& args) : AmxGroupedCall(args) {}

  void Run(StreamsAhead& ahead) const {
    const HalfRows values = Values();
    const size_t num_turns = CeilDiv(values.num_rows, kStep);
    Unit before = {};
    size_t num_units = 0;
    for (size_t first = 0; first < num_turns; first += kTurns) {
      const size_t end = Min(first + kTurns, num_turns);
      for (size_t column = 0; column < kWidth; column += kColumns) {
        const size_t begin = first + begin_ / kStep;
        for (size_t turn = begin; turn < end; ++turn) {
          const Unit unit = {.turn = turn,
                             .first_column = column,
                             .is_first = turn == begin,
                             .is_last = turn + 1 == end,
                             .lines = chunk(num_units)};
          if (num_units++ == 0) {
            SumUnit<true, false>(values, unit, before, ahead);
          } else {
            SumUnit<true, true>(values, unit, before, ahead);
          }
          before = unit;
        }
      }
    }
    SumUnit<false, true>(values, before, before, ahead);
  }

 private:
  static constexpr size_t kRowBytes = kWidth * sizeof(uint16_t);
  static constexpr size_t kColumns = kColumnTiles * kTile;
  static constexpr size_t kPairs = kLinesBetween / kColumnTiles;
  static constexpr size_t kLinesOfUnit = kStep * kColumns * 2 / kLineBytes;
  static_assert(kWidth % kColumns == 0);

  // 32 values of all pieces, which follow each other, and the columns of them
  // that are summed up together.
  struct Unit {
    size_t turn;
    size_t first_column;
    bool is_first;  // of its piece
    bool is_last;
    std::byte* lines;  // what it is split into
  };

  // Splits a unit, and adds the one before to its sums.
  template <bool kSplit, bool kMultiply>
  [[gnu::always_inline]] void SumUnit(const HalfRows& values, const Unit& unit,
                                      const Unit& before,
                                      StreamsAhead& ahead) const {
    alignas(kLineBytes) std::byte tail[kStep * kRowBytes];
    std::byte* const lines = unit.lines;
    const size_t column_bytes = unit.first_column * sizeof(uint16_t);
    const std::byte* const first =
        kSplit ? WholeRows<kStep, kRowBytes>(values, unit.turn, tail) +
                     column_bytes
               : nullptr;
    const uintptr_t behind =
        kSplit ? RowsBehind<kStep, kRowBytes>(values, unit.turn,
                                              first - column_bytes) +
                     column_bytes
               : 0;
    const uintptr_t prefetched = kSplit ? ahead.Take(kLinesOfUnit) : 0;
    const auto split = [=](size_t part) __attribute__((always_inline)) {
      if constexpr (kSplit) {
#pragma GCC unroll 4
        for (size_t i = part * kPairs; i < (part + 1) * kPairs; ++i) {
          SplitValuesAndPrefetch(first + 2 * i * kRowBytes,
                                 prefetched + i * kColumnTiles * kLineBytes,
                                 Near<kStep, kRowBytes>(first, behind, 2 * i),
                                 lines + i * kTileLineBytes);
        }
      }
    };
    if constexpr (kMultiply) {
      AddToBlock(before, 0, split);
      for (size_t block = 1; block < num_blocks_; ++block) {
        AddToBlock(before, block, [](size_t /*part*/) {});
      }
    } else {
#pragma GCC unroll 8
      for (size_t part = 0; part < 2 * kColumnTiles; ++part) split(part);
    }
  }

  // A value and the next.
  [[gnu::always_inline]] static void SplitValuesAndPrefetch(
      const std::byte* even, uintptr_t prefetched, uintptr_t near,
      std::byte* line) {
    const std::byte* odd = even + kRowBytes;
#pragma GCC unroll 4
    for (size_t i = 0; i < kColumnTiles; ++i) {
      PrefetchLine<2>(prefetched + i * kLineBytes);
      PrefetchLine<3>(near + i / (kColumnTiles / 2) * kRowBytes +
                      i % (kColumnTiles / 2) * kLineBytes);
      Store(SplitPairs(LoadF16(even + i * kStep), LoadF16(odd + i * kStep)),
            line + i * kHalfTiles);
    }
  }

  // A block's sums, in tiles 0 to 3, and its weights, in 4. The sums of the one
  // block stay in their tiles, of several they come and go: without rounding,
  // so that they do not depend on how many there are.
  [[gnu::always_inline]] void BeginSums(const Unit& unit, size_t block) const {
    if (unit.is_first) {
      _tile_loadd(0, kZeros, 0);
      _tile_loadd(1, kZeros, 0);
      _tile_loadd(2, kZeros, 0);
      _tile_loadd(3, kZeros, 0);
    } else if (num_blocks_ > 1) {
      const std::byte* sums = sums_ + block * kSumsBytes;
      _tile_loadd(0, sums, kTileLineBytes);
      _tile_loadd(1, sums + kTileBytes, kTileLineBytes);
      _tile_loadd(2, sums + 2 * kTileBytes, kTileLineBytes);
      _tile_loadd(3, sums + 3 * kTileBytes, kTileLineBytes);
    }
    _tile_loadd(4, weight_tile(unit.turn, block), kTileLineBytes);
  }
  [[gnu::always_inline]] void EndSums(const Unit& unit, size_t block) const {
    if (!unit.is_last && num_blocks_ == 1) return;
    std::byte* sums = sums_ + block * kSumsBytes;
    _tile_stored(0, sums, kTileLineBytes);
    _tile_stored(1, sums + kTileBytes, kTileLineBytes);
    _tile_stored(2, sums + 2 * kTileBytes, kTileLineBytes);
    _tile_stored(3, sums + 3 * kTileBytes, kTileLineBytes);
    if (unit.is_last) StoreSums(unit, block);
  }
  // What the upper halves of weights gave, and the lower ones.
  void StoreSums(const Unit& unit, size_t block) const {
    for (size_t i = NumShared(block); i < block_queries_; ++i) {
      const std::byte* line =
          sums_ + block * kSumsBytes + i * 2 * kTileLineBytes;
      float* out =
          out_of(unit.turn / kTurns, FirstOf(block) + i) + unit.first_column;
      for (size_t tile = 0; tile < kColumnTiles; ++tile, line += kTileBytes) {
        _mm512_store_ps(out + tile * kTile,
                        _mm512_add_ps(_mm512_load_ps(line),
                                      _mm512_load_ps(line + kTileLineBytes)));
      }
    }
  }

  // Adds a unit to a block's sums, both halves of 16 columns at a time; calls
  // meanwhile(part) before each. Values come in three tiles in turn: so one is
  // loaded while the one before is multiplied.
  template <class Function>
  [[gnu::always_inline]] void AddToBlock(const Unit& unit, size_t block,
                                         const Function& meanwhile) const {
    const std::byte* const lines = unit.lines;
    BeginSums(unit, block);
    meanwhile(0);
    AddProduct<0, 5>(lines);
    meanwhile(1);
    AddProduct<0, 6>(lines + kTileBytes);
    meanwhile(2);
    AddProduct<1, 7>(lines + kHalfTiles);
    meanwhile(3);
    AddProduct<1, 5>(lines + kHalfTiles + kTileBytes);
    meanwhile(4);
    AddProduct<2, 6>(lines + 2 * kHalfTiles);
    meanwhile(5);
    AddProduct<2, 7>(lines + 2 * kHalfTiles + kTileBytes);
    meanwhile(6);
    AddProduct<3, 5>(lines + 3 * kHalfTiles);
    meanwhile(7);
    AddProduct<3, 6>(lines + 3 * kHalfTiles + kTileBytes);
    EndSums(unit, block);
  }
  template <int kSum, int kTileOfValues>
  [[gnu::always_inline]] static void AddProduct(const std::byte* values) {
    _tile_loadd(kTileOfValues, values, kTileLineBytes);
    _tile_dpbf16ps(kSum, 4, kTileOfValues);
  }
};

}  // namespace
}  // namespace thermocline::kernels

#endif

#endif  // THERMOCLINE_KERNELS_CPU_AMX_GROUPED_SUMS_H_
