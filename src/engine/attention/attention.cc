#include "engine/attention/attention.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/math.h"
#include "engine/profile.h"
#include "kernels/kernels.h"
#include "kernels/kv_group.h"

namespace thermocline::engine {
namespace {

using kernels::kAttentionPiece;
using kernels::kAttentionQueries;

// Of a tile, at most, but in large batches: half as many as a call takes are as
// fast where they do not become tiles of the CPU, and leave more for threads to
// share.
constexpr size_t kTileQueries = kAttentionQueries / 2;

// The first one of a piece.
int64_t PositionOf(size_t piece_idx) {
  return static_cast<int64_t>(piece_idx * kAttentionPiece);
}

}  // namespace

// Queries that share one KV head and the reads of its positions.
struct Attention::Tile {
  size_t token_idx;  // the first one
  size_t num_tokens;
  size_t position;  // of the first token
  size_t head;      // the first one
  size_t num_heads;
  size_t kv_head;

  size_t num_queries() const { return num_tokens * num_heads; }
  // All tokens of a tile see the same number, and all of those before the last.
  size_t num_pieces() const { return position / kAttentionPiece + 1; }
};

// Pieces of a tile that follow each other, for one call of the kernel: several
// whole ones, or the last one.
struct Attention::Part {
  Tile tile;
  size_t first;
  size_t count;
};

// A batch cut into tiles. They begin at multiples of their length, which
// divides a piece's: only in a tile's last piece do its tokens see more and
// more positions.
class Attention::Tiling {
 public:
  using Kernel = void (*)(const kernels::AttentionArgs& args);

  Tiling(const model::Config& config, size_t first_position, size_t num_tokens,
         Kernel attend, size_t tile_queries)
      : attend_(attend),
        tile_queries_(tile_queries),
        num_kv_heads_(static_cast<size_t>(config.num_kv_heads)),
        group_(static_cast<size_t>(config.num_heads) / num_kv_heads_),
        tile_heads_(std::min(group_, tile_queries)),
        tile_tokens_(std::bit_floor(tile_queries / tile_heads_)),
        first_position_(first_position),
        end_position_(first_position + num_tokens) {}

  Kernel attend() const { return attend_; }
  size_t tile_queries() const { return tile_queries_; }
  size_t num_tokens() const { return end_position_ - first_position_; }
  size_t num_tiles() const {
    return num_kv_heads_ * TilesOfGroup() * TilesOfTokens();
  }
  size_t num_pieces() const { return CeilDiv(end_position_, kAttentionPiece); }
  // Of a tile, at most.
  size_t max_queries() const {
    return std::min(tile_tokens_, num_tokens()) * tile_heads_;
  }

  // The last tokens, which see most positions, come first.
  Tile tile(size_t i) const {
    const size_t tiles_of_heads = num_kv_heads_ * TilesOfGroup();
    const size_t idx = (end_position_ - 1) / tile_tokens_ - i / tiles_of_heads;
    const size_t heads_idx = i % tiles_of_heads;
    const size_t kv_head = heads_idx / TilesOfGroup();
    const size_t head = heads_idx % TilesOfGroup() * tile_heads_;
    const size_t position = std::max(idx * tile_tokens_, first_position_);
    const size_t end = std::min((idx + 1) * tile_tokens_, end_position_);
    return {.token_idx = position - first_position_,
            .num_tokens = end - position,
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
  Part part(size_t i, size_t per_call) const {
    const size_t num_parts = PartsOfTile(per_call);
    const Tile its_tile = tile(i / num_parts);
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
  size_t TilesOfTokens() const {
    return CeilDiv(end_position_, tile_tokens_) -
           first_position_ / tile_tokens_;
  }

  Kernel attend_;
  size_t tile_queries_;
  size_t num_kv_heads_;
  size_t group_;
  size_t tile_heads_;
  size_t tile_tokens_;
  size_t first_position_;
  size_t end_position_;
};

void Attention::Run(int64_t first_position, size_t num_tokens) const {
  {
    const ScopedStage stage(*compute_, Stage::kQkv,
                            weights_->q.num_bytes() + weights_->k.num_bytes() +
                                weights_->v.num_bytes());
    const std::array<Product, 3> qkv = {{
        {weights_->q, weights_->q_bias, scratch_->q},
        {weights_->k, weights_->k_bias, scratch_->k},
        {weights_->v, weights_->v_bias, scratch_->v},
    }};
    MultiplyAll(*compute_, scratch_->normed, num_tokens, qkv);
    RotateAndStore(first_position, num_tokens);
  }
  {
    const KvLayout& layout = cache_->layout();
    const size_t num_positions =
        static_cast<size_t>(first_position) + num_tokens;
    const ScopedStage stage(
        *compute_, Stage::kAttend,
        num_positions * (layout.k_row_bytes + layout.v_row_bytes));
    Attend(static_cast<size_t>(first_position), num_tokens);
  }
  const ScopedStage stage(*compute_, Stage::kOut, weights_->out.num_bytes());
  const std::array<Product, 1> out = {
      {{weights_->out, weights_->out_bias, scratch_->delta}}};
  MultiplyAll(*compute_, scratch_->attended, num_tokens, out);
}

void Attention::RotateAndStore(int64_t first_position,
                               size_t num_tokens) const {
  const kernels::KernelTable& kernels = *compute_->kernels;
  const size_t head_width = static_cast<size_t>(config_->key_width);
  const size_t num_pairs = scratch_->rope_cos.width;
  const auto rotate = [&](float* heads, int64_t num_heads, size_t t) {
    kernels.rope(heads, static_cast<size_t>(num_heads), head_width,
                 config_->rope.kind, scratch_->rope_cos.row(t),
                 scratch_->rope_sin.row(t), num_pairs);
  };
  // Tokens next to each other share cache lines of groups.
  const size_t num_threads = static_cast<size_t>(compute_->pool->num_threads());
  const size_t grain =
      std::clamp<size_t>(num_tokens / (4 * num_threads), 1, 16);
  compute_->pool->ParallelFor(
      num_tokens, grain, [&](size_t begin, size_t end, int /*worker_idx*/) {
        for (size_t t = begin; t < end; ++t) {
          const int64_t position = first_position + static_cast<int64_t>(t);
          NormHeads(weights_->q_norm, config_->num_heads, scratch_->q.row(t));
          NormHeads(weights_->k_norm, config_->num_kv_heads,
                    scratch_->k.row(t));
          if (config_->rope.kind != RopeKind::kNone) {
            rotate(scratch_->q.row(t), config_->num_heads, t);
            rotate(scratch_->k.row(t), config_->num_kv_heads, t);
          }
          Store(t, position);
        }
      });
}

// Each head of q or k in place, where the model norms them.
void Attention::NormHeads(const TensorView& weight, int64_t num_heads,
                          float* heads) const {
  if (!weight) return;
  const size_t head_width = static_cast<size_t>(config_->key_width);
  const auto* weights = reinterpret_cast<const float*>(weight.data);
  for (size_t i = 0; i < static_cast<size_t>(num_heads); ++i) {
    float* head = heads + i * head_width;
    compute_->kernels->rms_norm(head, weights, config_->norm_epsilon,
                                head_width, head);
  }
}

// Keys and values of token t of the batch, into the cache.
void Attention::Store(size_t t, int64_t position) const {
  const kernels::KernelTable& kernels = *compute_->kernels;
  const KvLayout& layout = cache_->layout();
  const size_t k_width = static_cast<size_t>(config_->key_width);
  const size_t v_width = static_cast<size_t>(config_->value_width);
  const bool in_groups = layout.order == kernels::KvOrder::kGroups;
  constexpr int64_t kGroup = static_cast<int64_t>(kernels::kKvGroup);
  const size_t place = static_cast<size_t>(position % kGroup);
  if (in_groups) position -= position % kGroup;
  for (size_t head = 0; head < static_cast<size_t>(config_->num_kv_heads);
       ++head) {
    const float* k = scratch_->k.row(t) + head * k_width;
    const float* v = scratch_->v.row(t) + head * v_width;
    std::byte* keys = cache_->keys(layer_idx_, head, position);
    std::byte* values = cache_->values(layer_idx_, head, position);
    if (in_groups) {
      kernels::StoreKeyInGroup(kernels, k, k_width, place, keys);
      kernels::StoreValueInGroup(kernels, v, v_width, place, values);
    } else {
      kernels.store_row(layout.k_type, k, k_width, keys);
      kernels.store_row(layout.v_type, v, v_width, values);
    }
  }
}

void Attention::Attend(size_t first_position, size_t num_tokens) const {
  const kernels::KernelTable& kernels = *compute_->kernels;
  const bool is_large =
      kernels.large_batch_attention != nullptr && IsLargeBatch(num_tokens);
  const Tiling tiling(
      *config_, first_position, num_tokens,
      is_large ? kernels.large_batch_attention : kernels.attention,
      is_large ? kAttentionQueries : kTileQueries);
  if (tiling.num_pieces() > 1 && num_tokens <= AttentionScratch::kSplitTokens) {
    AttendPieces(tiling);
  } else {
    AttendTiles(tiling);
  }
}

// Every tile by one thread, piece after piece.
void Attention::AttendTiles(const Tiling& tiling) const {
  const size_t v_width = static_cast<size_t>(config_->value_width);
  const size_t stride = kernels::PartialAttentionFloats(v_width);
  const size_t last_tile = tiling.num_tiles() - 1;
  const auto attend = [&](size_t begin, size_t end, int worker_idx) {
    float* sums = scratch_->attention.sums.row(static_cast<size_t>(worker_idx));
    float* partials = sums + kAttentionQueries * stride;
    for (size_t i = begin; i < end; ++i) {
      const Tile tile = tiling.tile(i);
      const Tile next_tile = tiling.tile(std::min(i + 1, last_tile));
      for (size_t piece = 0; piece < tile.num_pieces(); ++piece) {
        const Part next = piece + 1 < tile.num_pieces()
                              ? Part{.tile = tile, .first = piece + 1}
                              : Part{.tile = next_tile, .first = 0};
        AttendPart(tiling, {.tile = tile, .first = piece, .count = 1}, next,
                   worker_idx, piece == 0 ? sums : partials, 0);
        for (size_t q = 0; q < tile.num_queries() && piece > 0; ++q) {
          compute_->kernels->merge_attention(partials + q * stride, v_width,
                                             sums + q * stride);
        }
      }
      Finish(tile, sums);
    }
  };
  compute_->pool->ParallelFor(tiling.num_tiles(), 1, attend);
}

// How many pieces a call reads side by side: as many as it can, while there are
// calls enough for all threads.
size_t Attention::PiecesPerCall(const Tiling& tiling) const {
  const size_t num_threads = static_cast<size_t>(compute_->pool->num_threads());
  const size_t fair =
      tiling.num_tiles() * tiling.num_pieces() / (4 * num_threads);
  const size_t possible = std::min(
      kernels::kAttentionPieces, tiling.tile_queries() / tiling.max_queries());
  return std::clamp<size_t>(fair, 1, possible);
}

// Every piece of a tile by any thread: a few tokens are enough work for all.
void Attention::AttendPieces(const Tiling& tiling) const {
  const Rows& partials = scratch_->attention.partials;
  const size_t num_heads = static_cast<size_t>(config_->num_heads);
  const size_t num_partials = tiling.num_tokens() * num_heads;  // of a piece
  const size_t per_call = PiecesPerCall(tiling);
  const size_t num_items = tiling.num_parts(per_call);
  const auto attend = [&](size_t begin, size_t end, int worker_idx) {
    for (size_t i = begin; i < end; ++i) {
      const Part part = tiling.part(i, per_call);
      if (part.count == 0) continue;
      const Part next = tiling.part(std::min(i + 1, num_items - 1), per_call);
      AttendPart(
          tiling, part, next, worker_idx,
          partials.row(part.first * num_partials + FirstPartial(part.tile)),
          num_partials * partials.stride);
    }
  };
  // Threads follow the stream of a head for a while, and still end together.
  const size_t num_threads = static_cast<size_t>(compute_->pool->num_threads());
  const size_t grain =
      std::clamp<size_t>(num_items / (8 * num_threads), 1, 8 / per_call);
  compute_->pool->ParallelFor(num_items, grain, attend);
  compute_->pool->ParallelFor(
      tiling.num_tiles(), 1, [&](size_t begin, size_t end, int /*worker_idx*/) {
        for (size_t i = begin; i < end; ++i) {
          MergePieces(tiling.tile(i), num_partials);
        }
      });
}

// The place of a tile's first partial sum among those of a piece.
size_t Attention::FirstPartial(const Tile& tile) const {
  return tile.token_idx * static_cast<size_t>(config_->num_heads) +
         tile.head * tile.num_tokens;
}

// The sums of a tile over each of its pieces, sums_stride floats apart; asks
// for what the next part begins with.
void Attention::AttendPart(const Tiling& tiling, const Part& part,
                           const Part& next, int worker_idx, float* sums,
                           size_t sums_stride) const {
  const KvLayout& layout = cache_->layout();
  const Tile& tile = part.tile;
  const int64_t position = PositionOf(part.first);
  const bool is_last = part.first + part.count == tile.num_pieces();
  kernels::AttentionArgs args;
  args.k_width = static_cast<size_t>(config_->key_width);
  args.v_width = static_cast<size_t>(config_->value_width);
  args.q = scratch_->q.row(tile.token_idx) + tile.head * args.k_width;
  args.q_stride = scratch_->q.stride;
  args.num_tokens = tile.num_tokens;
  args.num_heads = tile.num_heads;
  args.k_dtype = layout.k_type;
  args.v_dtype = layout.v_type;
  args.kv_order = layout.order;
  args.k = cache_->keys(layer_idx_, tile.kv_head, position);
  args.k_stride_bytes = layout.k_head_bytes;
  args.v = cache_->values(layer_idx_, tile.kv_head, position);
  args.v_stride_bytes = layout.v_head_bytes;
  args.num_positions = is_last
                           ? tile.position + 1 - static_cast<size_t>(position)
                           : kAttentionPiece;
  args.is_diagonal = is_last;
  args.scale = 1.0f / std::sqrt(static_cast<float>(args.k_width));
  args.scratch = scratch_->attention.work.row(static_cast<size_t>(worker_idx));
  args.out = sums;
  args.num_pieces = part.count;
  args.out_piece_stride = sums_stride;
  args.next_k =
      cache_->keys(layer_idx_, next.tile.kv_head, PositionOf(next.first));
  tiling.attend()(args);
}

bool Attention::IsLargeBatch(size_t num_tokens) const {
  const kernels::KernelTable& kernels = *compute_->kernels;
  const DType dtype = weights_->q.dtype;
  return kernels.batch_for(compute_->TokensThatChoose(num_tokens)) ==
             &kernels.large_batch &&
         (kernels.large_batch.multiply(dtype) != nullptr ||
          kernels.float_batch.multiply(dtype) != nullptr);
}

void Attention::MergePieces(const Tile& tile, size_t num_partials) const {
  const Rows& partials = scratch_->attention.partials;
  const size_t v_width = static_cast<size_t>(config_->value_width);
  const size_t first = FirstPartial(tile);
  for (size_t q = first; q < first + tile.num_queries(); ++q) {
    for (size_t piece = 1; piece < tile.num_pieces(); ++piece) {
      compute_->kernels->merge_attention(partials.row(piece * num_partials + q),
                                         v_width, partials.row(q));
    }
  }
  Finish(tile, partials.row(first));
}

void Attention::Finish(const Tile& tile, const float* sums) const {
  const size_t v_width = static_cast<size_t>(config_->value_width);
  for (size_t t = 0; t < tile.num_tokens; ++t) {
    float* out =
        scratch_->attended.row(tile.token_idx + t) + tile.head * v_width;
    for (size_t g = 0; g < tile.num_heads; ++g) {
      compute_->kernels->finish_attention(sums, v_width, out + g * v_width);
      sums += kernels::PartialAttentionFloats(v_width);
    }
  }
}

}  // namespace thermocline::engine
