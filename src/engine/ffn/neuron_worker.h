// What a thread of NeuronFfn computes, in which order, and the cache lines that
// it prefetches meanwhile.
#ifndef THERMOCLINE_ENGINE_FFN_NEURON_WORKER_H_
#define THERMOCLINE_ENGINE_FFN_NEURON_WORKER_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "engine/ffn/neuron_ffn.h"
#include "engine/ffn/neuron_pieces.h"
#include "engine/ffn/record_store.h"
#include "kernels/kernels.h"
#include "os/cache_line.h"

namespace thermocline::engine {

// Listed rows of tokens with the same list.
struct Chunk {
  const uint32_t* ids = nullptr;
  size_t num_rows = 0;  // 0: no chunk
  size_t first_token = 0;
  size_t num_tokens = 0;
  size_t piece = 0;
  bool begins_piece = false;  // of these tokens
  bool ends_tokens = false;   // of the piece, likewise
  bool ends_piece = false;    // of all tokens
};

inline constexpr size_t kChunkRowsMax = 512;
// Neurons that are computed together: calls on fewer rows cost more per row.
inline constexpr size_t kGroup = kernels::kAddRowsGroup;
inline constexpr size_t kProducts = kChunkRowsMax + kGroup;

// Of the tokens of a chunk, the neurons that are not at rest, and what their
// test gave: the raw product of the gate, or h without one.
struct Survivors {
  Chunk chunk;
  size_t counts[kernels::kListedTokens];
  uint32_t ids[kernels::kListedTokens][kProducts];
  float values[kernels::kListedTokens][kProducts];
};

// To the nearest number of whole groups.
inline size_t RowsPerChunk(size_t chunk_bytes, double bytes_per_row) {
  const double num_groups = static_cast<double>(chunk_bytes) /
                            std::max(bytes_per_row, 1.0) /
                            static_cast<double>(kGroup);
  return kGroup * static_cast<size_t>(
                      std::clamp(std::round(num_groups), 1.0,
                                 static_cast<double>(kChunkRowsMax / kGroup)));
}

// Goes through the pieces that a store hands to a thread, in each through the
// tokens, those with the same list together, in chunks of up to chunk_rows
// rows.
class PieceChunks {
 public:
  // A thread that begins with the pieces of share `share` of what was
  // requested.
  // test: where gates may come before the rest of records; or null.
  PieceChunks(const CutLists& cut, RecordStore* records, size_t share,
              size_t chunk_rows, GateTest* test = nullptr)
      : cut_(cut),
        records_(*records),
        test_(test),
        share_(share),
        chunk_rows_(chunk_rows) {}

  // Without rows when there is no more. The first piece is taken here, not when
  // this is made: a store may ask `test`, whose owner is not whole until then.
  Chunk Next() {
    if (!has_begun_) next_.piece = TakePiece();
    has_begun_ = true;
    while (next_.piece < cut_.max_pieces) {
      const size_t t = next_.token;
      if (t == cut_.lists.size()) {
        next_ = {.piece = TakePiece()};
        continue;
      }
      const size_t after = EndOfGroup(t);
      if (next_.piece >= cut_.num_pieces[t]) {
        next_.token = after;
        continue;
      }
      return Cut(t, after);
    }
    return {};
  }

 private:
  // Where the next chunk begins.
  struct Place {
    size_t piece = 0;
    size_t token = 0;
    size_t row = 0;  // in the token's piece
  };

  size_t TakePiece() {
    return test_ == nullptr ? records_.NextReady(share_)
                            : records_.NextReady(share_, *test_);
  }

  // The next chunk, of tokens [first, after).
  Chunk Cut(size_t first, size_t after) {
    const std::span<const uint32_t> ids = cut_.PieceOf(first, next_.piece);
    Chunk chunk = {.ids = ids.data() + next_.row,
                   .first_token = first,
                   .num_tokens = after - first,
                   .piece = next_.piece,
                   .begins_piece = next_.row == 0};
    chunk.num_rows = std::min(chunk_rows_, ids.size() - next_.row);
    next_.row += chunk.num_rows;
    if (next_.row == ids.size()) next_ = {next_.piece, after, 0};
    chunk.ends_tokens = next_.row == 0;
    chunk.ends_piece = chunk.ends_tokens && IsLastOfPiece(after);
    return chunk;
  }

  size_t EndOfGroup(size_t token_idx) const {
    size_t end = token_idx + 1;
    while (end < cut_.lists.size() &&
           cut_.lists[end] == cut_.lists[token_idx]) {
      ++end;
    }
    return end;
  }

  // Whether no token from `token_idx` on takes part in the piece at hand.
  bool IsLastOfPiece(size_t token_idx) const {
    for (size_t t = token_idx; t < cut_.lists.size(); ++t) {
      if (next_.piece < cut_.num_pieces[t]) return false;
    }
    return true;
  }

  CutLists cut_;
  RecordStore& records_;
  GateTest* test_;
  size_t share_;  // where it would go on
  size_t chunk_rows_;
  bool has_begun_ = false;
  Place next_;
};

// Enough for a chunk of `exact` that lets six tenths of its neurons through, or
// for several tokens with fewer (neuron_worker.cc).
inline constexpr size_t kMaxLines = 16384;

// The cache lines of rows that lie apart, in the order in which memory gives
// them fastest: those that are read soon. What does not fit is not prefetched.
class LineList {
 public:
  // KernelTable::lists_into_first_level
  explicit LineList(bool into_first_level)
      : ahead_{.into_first_level = into_first_level} {}

  void Clear() {
    num_lines_ = 0;
    ahead_.next = ahead_.end = nullptr;
  }
  // The first lines of some rows, then their second ones, and so on: rows lie
  // in pages of their own, whose addresses are then looked up side by side.
  void Add(const RowPlaces& rows, const uint32_t* ids, size_t num_rows) {
    const size_t lines_per_row = LinesPerRow(rows);
    for (size_t first = 0; first < num_rows; first += kLanes) {
      const size_t count = std::min(kLanes, num_rows - first);
      if (count * lines_per_row > kMaxLines - num_lines_) return;
      Lines lines = {};
      for (size_t i = 0; i < count; ++i) {
        lines[i] = reinterpret_cast<uintptr_t>(rows.row(ids[first + i])) /
                   os::kCacheLine * os::kCacheLine;
      }
      // Whole vectors: what is too much is written over by the next.
      for (size_t i = 0; i < lines_per_row; ++i) {
        std::memcpy(lines_ + num_lines_, &lines, sizeof(lines));
        lines += os::kCacheLine;
        num_lines_ += count;
      }
    }
  }
  // For kernels to prefetch while they compute.
  kernels::LinesAhead* Start() {
    ahead_.next = lines_;
    ahead_.end = lines_ + num_lines_;
    return &ahead_;
  }
  // Prefetches the next lines, as many as there are of num_lines.
  void Prefetch(size_t num_lines) {
    const size_t count =
        std::min(num_lines, static_cast<size_t>(ahead_.end - ahead_.next));
    for (size_t i = 0; i < count; ++i, ++ahead_.next) {
      os::PrefetchForRead(reinterpret_cast<const void*>(*ahead_.next));
    }
  }
  // Prefetches what no kernel has prefetched.
  void Finish() { Prefetch(kMaxLines); }

  // Exactly, where all rows begin alike: a line more of each would be a
  // twentieth of what is read. Else as many as a row may touch.
  static size_t LinesPerRow(const RowPlaces& rows) {
    const size_t before =
        rows.stride % os::kCacheLine == 0
            ? reinterpret_cast<uintptr_t>(rows.data) % os::kCacheLine
            : os::kCacheLine - 1;
    return (before + rows.num_bytes + os::kCacheLine - 1) / os::kCacheLine;
  }

 private:
  static constexpr size_t kLanes = 8;
  using Lines = uintptr_t __attribute__((ext_vector_type(kLanes)));

  uintptr_t lines_[kMaxLines + kLanes];
  size_t num_lines_ = 0;
  kernels::LinesAhead ahead_;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_NEURON_WORKER_H_
