// How the queries of some rows are cut into calls of the attention kernels.
#ifndef THERMOCLINE_ENGINE_ATTENTION_ATTENTION_TILING_H_
#define THERMOCLINE_ENGINE_ATTENTION_ATTENTION_TILING_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

#include "base/check.h"
#include "base/math.h"
#include "engine/attention/attention_executor.h"
#include "engine/attention/attention_scratch.h"
#include "kernels/kernels.h"
#include "model/layer_spec.h"

namespace thermocline::engine {

// Queries that share one KV head and the reads of its positions.
struct AttentionTile {
  const KvSequence* sequence;
  size_t row;  // the first one, of the call's
  size_t num_rows;
  size_t position;  // of the first row
  size_t head;      // the first one
  size_t num_heads;
  size_t kv_head;

  size_t num_queries() const { return num_rows * num_heads; }
  // All rows of a tile see the same number, and all of those before the last.
  size_t num_pieces() const { return position / kernels::kAttentionPiece + 1; }
};

// Pieces of a tile that follow each other, for one call of the kernel: several
// whole ones, or the last one.
struct AttentionPart {
  AttentionTile tile;
  size_t first;
  size_t count;
};

// Rows of one sequence cut into tiles of at most tile_queries queries. They
// begin at multiples of their length, which divides a piece's: only in a tile's
// last piece do its rows see more and more positions.
class AttentionTiling {
 public:
  AttentionTiling() = default;
  AttentionTiling(const model::AttentionSpec& spec, const SequenceRows& rows,
                  size_t tile_queries)
      : rows_(rows),
        num_kv_heads_(spec.num_kv_heads),
        group_(spec.num_heads / num_kv_heads_),
        tile_heads_(std::min(group_, tile_queries)),
        tile_rows_(std::bit_floor(tile_queries / tile_heads_)),
        first_position_(static_cast<size_t>(rows.first_position)),
        end_position_(first_position_ + rows.num_rows) {}

  size_t num_tiles() const {
    return num_kv_heads_ * TilesOfGroup() * TilesOfRows();
  }
  size_t num_pieces() const {
    return CeilDiv(end_position_, kernels::kAttentionPiece);
  }
  // Of a tile, at most.
  size_t max_queries() const {
    return std::min(tile_rows_, rows_.num_rows) * tile_heads_;
  }

  // The last rows, which see most positions, come first.
  AttentionTile tile(size_t i) const {
    const size_t tiles_of_heads = num_kv_heads_ * TilesOfGroup();
    const size_t idx = (end_position_ - 1) / tile_rows_ - i / tiles_of_heads;
    const size_t heads_idx = i % tiles_of_heads;
    const size_t kv_head = heads_idx / TilesOfGroup();
    const size_t head = heads_idx % TilesOfGroup() * tile_heads_;
    const size_t position = std::max(idx * tile_rows_, first_position_);
    const size_t end = std::min((idx + 1) * tile_rows_, end_position_);
    return {.sequence = rows_.sequence,
            .row = rows_.first_row + position - first_position_,
            .num_rows = end - position,
            .position = position,
            .head = kv_head * group_ + head,
            .num_heads = std::min(tile_heads_, group_ - head),
            .kv_head = kv_head};
  }

  // Of all tiles, each in whole pieces, per_call together, and its last one.
  size_t num_parts(size_t per_call) const {
    return num_tiles() * PartsOfTile(per_call);
  }
  // Without pieces where a tile has fewer than another.
  AttentionPart part(size_t i, size_t per_call) const {
    const size_t num_parts = PartsOfTile(per_call);
    const AttentionTile its_tile = tile(i / num_parts);
    const size_t last = its_tile.num_pieces() - 1;
    if (i % num_parts == num_parts - 1) return {its_tile, last, 1};
    const size_t first = std::min(i % num_parts * per_call, last);
    return {its_tile, first, std::min(per_call, last - first)};
  }

 private:
  size_t PartsOfTile(size_t per_call) const {
    return CeilDiv(num_pieces() - 1, per_call) + 1;
  }
  size_t TilesOfGroup() const { return CeilDiv(group_, tile_heads_); }
  size_t TilesOfRows() const {
    return CeilDiv(end_position_, tile_rows_) - first_position_ / tile_rows_;
  }

  SequenceRows rows_;
  size_t num_kv_heads_ = 1;
  size_t group_ = 1;
  size_t tile_heads_ = 1;
  size_t tile_rows_ = 1;
  size_t first_position_ = 0;
  size_t end_position_ = 0;
};

// The rows of several sequences that are attended together: all of one, or
// kSplitRows at most of several.
class AttentionGroup {
 public:
  AttentionGroup(const model::AttentionSpec* spec, size_t tile_queries)
      : spec_(spec), tile_queries_(tile_queries) {}

  void Add(const SequenceRows& rows) {
    TC_CHECK(num_tilings_ < tilings_.size());
    if (num_tilings_ == 0) first_row_ = rows.first_row;
    num_rows_ += rows.num_rows;
    tilings_[num_tilings_++] = AttentionTiling(*spec_, rows, tile_queries_);
  }
  bool empty() const { return num_tilings_ == 0; }
  size_t tile_queries() const { return tile_queries_; }
  size_t first_row() const { return first_row_; }
  size_t num_rows() const { return num_rows_; }

  size_t num_pieces() const {
    size_t most = 0;
    ForEach([&](const AttentionTiling& t) {
      most = std::max(most, t.num_pieces());
    });
    return most;
  }
  size_t max_queries() const {
    size_t most = 0;
    ForEach([&](const AttentionTiling& t) {
      most = std::max(most, t.max_queries());
    });
    return most;
  }
  // Of all tiles, in pieces.
  size_t num_tile_pieces() const {
    size_t sum = 0;
    ForEach([&](const AttentionTiling& t) {
      sum += t.num_tiles() * t.num_pieces();
    });
    return sum;
  }
  size_t num_tiles() const {
    size_t sum = 0;
    ForEach([&](const AttentionTiling& t) { sum += t.num_tiles(); });
    return sum;
  }
  size_t num_parts(size_t per_call) const {
    size_t sum = 0;
    ForEach([&](const AttentionTiling& t) { sum += t.num_parts(per_call); });
    return sum;
  }
  AttentionTile tile(size_t i) const {
    size_t k = 0;
    while (i >= tilings_[k].num_tiles()) i -= tilings_[k++].num_tiles();
    return tilings_[k].tile(i);
  }
  AttentionPart part(size_t i, size_t per_call) const {
    size_t k = 0;
    while (i >= tilings_[k].num_parts(per_call)) {
      i -= tilings_[k++].num_parts(per_call);
    }
    return tilings_[k].part(i, per_call);
  }

 private:
  template <typename Function>
  void ForEach(Function f) const {
    for (size_t k = 0; k < num_tilings_; ++k) f(tilings_[k]);
  }

  const model::AttentionSpec* spec_;
  size_t tile_queries_;
  size_t first_row_ = 0;
  size_t num_rows_ = 0;
  size_t num_tilings_ = 0;
  std::array<AttentionTiling, AttentionScratch::kSplitRows> tilings_;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_ATTENTION_ATTENTION_TILING_H_
