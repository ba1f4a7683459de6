// A call of amx_grouped_attention.cc: what its scratch holds, and how far ahead
// it prefetches what it reads.
#ifndef THERMOCLINE_KERNELS_CPU_AMX_GROUPED_CALL_H_
#define THERMOCLINE_KERNELS_CPU_AMX_GROUPED_CALL_H_

// Empty unless compiled for it, so that it compiles alone anywhere.
#if defined(__AVX512BF16__) && defined(__AMX_TILE__)

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/ahead.h"
#include "kernels/cpu/amx_attention_call.h"
#include "kernels/cpu/amx_attention_split.h"
#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/attention_weights_avx512.h"
#include "kernels/kernels.h"

// Unnamed in a header for the reason that int8_avx512.h gives.
namespace thermocline::kernels {
namespace {

// What is prefetched, so far ahead of what is split: into the first level of
// the cache, and into the second. Values are read 64 columns at a time of a
// whole piece but prefetched in their order: half a piece more, so that the
// last rows' first columns are there.
constexpr size_t kBytesNear = 1024;
constexpr size_t kKeyBytesAhead = 16384;
constexpr size_t kValueBytesAhead = 40960;

// Lines that are split between two loads of tiles.
constexpr size_t kLinesBetween = 8;

// Queries that meet what was split together: both halves of them fill a tile.
constexpr size_t kBlock = kTile / 2;

// Keys and values have one width and lie in rows without gaps.
class AmxGroupedCall : protected AmxAttentionCall {
 protected:
  static constexpr size_t kTurns = kAttentionPiece / kStep;  // of a piece
  // Of a block: its weights of a piece, and its sums of 64 columns.
  static constexpr size_t kWeightsBytes = kTurns * kTileBytes;
  static constexpr size_t kColumnTiles = 4;
  static constexpr size_t kSumsBytes = kColumnTiles * kTileBytes;
  // What is split at a time: 16 keys of up to 128 elements, 32 values of 64.
  static constexpr size_t kChunkBytes = 4 * kHalfTiles;

  explicit AmxGroupedCall(const AttentionArgs& args)
      : AmxAttentionCall(args, kBlock),
        begin_(args.FirstInPages()),
        weights_(reinterpret_cast<std::byte*>(args.scratch)),
        queries_(weights_ + args.num_pieces * num_blocks_ * kWeightsBytes),
        sums_(queries_ + num_blocks_ * key_steps_ * kTileBytes),
        chunks_(sums_ + num_blocks_ * kSumsBytes) {}

  std::byte* query_tiles(size_t block) const {
    return queries_ + block * key_steps_ * kTileBytes;
  }
  // 32 scores of each of a block's queries, of all pieces' positions; or both
  // halves of the weights that they become, in two lines.
  std::byte* weight_tile(size_t turn, size_t block) const {
    const size_t idx = (turn / kTurns * num_blocks_ + block) * kTurns;
    return weights_ + (idx + turn % kTurns) * kTileBytes;
  }
  std::byte* chunk(size_t unit) const {
    return chunks_ + unit % 2 * kChunkBytes;
  }

  // Rows [unit * kNum, (unit + 1) * kNum), which lie one after another; those
  // behind the last one are it once more: a query that does not see them gives
  // them no weight.
  template <size_t kNum, size_t kRowBytes>
  static const std::byte* WholeRows(const HalfRows& rows, size_t unit,
                                    std::byte* tail) {
    if ((unit + 1) * kNum <= rows.num_rows) {
      return rows.row(unit * kNum);
    }
    for (size_t i = 0; i < kNum; ++i) {
      __builtin_memcpy(tail + i * kRowBytes,
                       rows.row(Min(unit * kNum + i, rows.num_rows - 1)),
                       kRowBytes);
    }
    return tail;
  }

  // Where the rows behind WholeRows() begin, and, where there are none, what
  // lies behind those: for asking only.
  template <size_t kNum, size_t kRowBytes>
  static uintptr_t RowsBehind(const HalfRows& rows, size_t unit,
                              const std::byte* whole_rows) {
    const size_t behind = (unit + 1) * kNum;
    return behind < rows.num_rows
               ? reinterpret_cast<uintptr_t>(rows.row(behind))
               : reinterpret_cast<uintptr_t>(whole_rows) + kNum * kRowBytes;
  }

  // The address of row i of kNum whole ones, or of those behind them.
  template <size_t kNum, size_t kRowBytes>
  [[gnu::always_inline]] static uintptr_t Near(const std::byte* whole_rows,
                                               uintptr_t behind, size_t i) {
    static_assert(kBytesNear % kRowBytes == 0 && kBytesNear < kNum * kRowBytes);
    i += kBytesNear / kRowBytes;
    return i < kNum ? reinterpret_cast<uintptr_t>(whole_rows) + i * kRowBytes
                    : behind + (i - kNum) * kRowBytes;
  }

  static constexpr bool Fits(size_t width, size_t num_blocks,
                             size_t num_pieces) {
    const size_t block_bytes =
        num_pieces * kWeightsBytes + width / kStep * kTileBytes + kSumsBytes;
    return num_blocks * block_bytes + 2 * kChunkBytes <=
           AttentionScratchFloats(width, width) * sizeof(float);
  }

  // What sums begin with: clearing a tile takes longer than loading it.
  alignas(kLineBytes) static constexpr std::byte kZeros[kTileLineBytes] = {};

  const size_t begin_;        // position, of what is read of a piece
  std::byte* const weights_;  // [piece][block][turn]
  std::byte* const queries_;  // [block][step]
  std::byte* const sums_;     // [block] of values; before, a few of scores
  std::byte* const chunks_;   // what was split last, and before
};

}  // namespace
}  // namespace thermocline::kernels

#endif

#endif  // THERMOCLINE_KERNELS_CPU_AMX_GROUPED_CALL_H_
