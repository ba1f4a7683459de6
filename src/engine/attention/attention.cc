#include "engine/attention/attention.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/math.h"
#include "compute/stage_times.h"
#include "kernels/kernels.h"

namespace thermocline::engine {
namespace {

using kernels::kAttentionPiece;
using kernels::kAttentionQueries;

constexpr size_t kPagesOfPiece = kAttentionPiece / kernels::kKvPage;

// Of a tile, at most, but in large batches: half as many as a call takes are as
// fast where they do not become tiles of the CPU, and leave more for threads to
// share.
constexpr size_t kTileQueries = kAttentionQueries / 2;

// Where a call finds the pages of its pieces.
struct PageList {
  PageList(const AttentionPart& part, size_t layer_idx) {
    const KvSequence& sequence = *part.tile.sequence;
    const size_t first = part.first * kPagesOfPiece;
    const size_t count =
        std::min(part.count * kPagesOfPiece, sequence.num_pages() - first);
    for (size_t i = 0; i < count; ++i) {
      keys[i] = sequence.keys(layer_idx, part.tile.kv_head, first + i);
      values[i] = sequence.values(layer_idx, part.tile.kv_head, first + i);
    }
  }
  const std::byte* keys[kernels::kAttentionPieces * kPagesOfPiece];
  const std::byte* values[kernels::kAttentionPieces * kPagesOfPiece];
};

// Positions that are read for the call, those that several rows share once.
size_t PositionsRead(std::span<const SequenceRows> runs) {
  size_t sum = 0;
  for (const SequenceRows& run : runs) {
    sum += static_cast<size_t>(run.first_position) + run.num_rows;
  }
  return sum;
}

}  // namespace

Status Attention::Run(const AttentionCall& call) {
  const compute::ProductForm form = FormOf(call.phase);
  {
    const compute::ScopedStage stage(*compute_, compute::Stage::kQkv,
                                     weights_->q.num_bytes() +
                                         weights_->k.num_bytes() +
                                         weights_->v.num_bytes());
    const std::array<compute::Product, 3> qkv = {{
        {weights_->q, weights_->q_bias, scratch_->q},
        {weights_->k, weights_->k_bias, scratch_->k},
        {weights_->v, weights_->v_bias, scratch_->v},
    }};
    MultiplyAll(*compute_, form, call.normed, call.num_rows, qkv);
    RotateAndStore(call);
  }
  {
    const KvLayout& layout = call.runs.front().sequence->layout();
    const compute::ScopedStage stage(
        *compute_, compute::Stage::kAttend,
        PositionsRead(call.runs) * layout.layer(layer_idx_).position_bytes());
    if (call.phase == Phase::kPrompt) {
      AttendPrompts(call);
    } else {
      AttendGenerated(call);
    }
  }
  const compute::ScopedStage stage(*compute_, compute::Stage::kOut,
                                   weights_->out.num_bytes());
  const std::array<compute::Product, 1> out = {
      {{weights_->out, weights_->out_bias, call.out}}};
  MultiplyAll(*compute_, form, scratch_->attended, call.num_rows, out);
  return {};
}

void Attention::RotateAndStore(const AttentionCall& call) const {
  // Rows next to each other share cache lines of groups.
  const size_t num_threads = static_cast<size_t>(compute_->pool->num_threads());
  const size_t grain =
      std::clamp<size_t>(call.num_rows / (4 * num_threads), 1, 16);
  compute_->pool->ParallelFor(
      call.num_rows, grain, [&](size_t begin, size_t end, int /*worker_idx*/) {
        const SequenceRows* run = call.runs.data();
        for (size_t t = begin; t < end; ++t) {
          while (t >= run->first_row + run->num_rows) ++run;
          RotateAndStoreRow(call, *run, t);
        }
      });
}

void Attention::RotateAndStoreRow(const AttentionCall& call,
                                  const SequenceRows& rows, size_t row) const {
  const kernels::KernelTable& kernels = *compute_->kernels;
  const auto rotate = [&](float* heads, size_t num_heads) {
    kernels.rope(heads, num_heads, spec_.key_width,
                 config_->ropes[static_cast<size_t>(spec_.rope)].kind,
                 call.rope_cos.row(row), call.rope_sin.row(row),
                 call.rope_cos.width);
  };
  NormHeads(weights_->q_norm, spec_.num_heads, scratch_->q.row(row));
  NormHeads(weights_->k_norm, spec_.num_kv_heads, scratch_->k.row(row));
  if (spec_.rope != model::AttentionSpec::kNoRope) {
    rotate(scratch_->q.row(row), spec_.num_heads);
    rotate(scratch_->k.row(row), spec_.num_kv_heads);
  }
  rows.sequence->Put(
      kernels, layer_idx_,
      rows.first_position + static_cast<int64_t>(row - rows.first_row),
      scratch_->k.row(row), scratch_->v.row(row));
}

// Each head of q or k in place, where the model norms them.
void Attention::NormHeads(const TensorView& weight, size_t num_heads,
                          float* heads) const {
  if (!weight) return;
  const size_t head_width = spec_.key_width;
  const auto* weights = reinterpret_cast<const float*>(weight.data);
  for (size_t i = 0; i < num_heads; ++i) {
    float* head = heads + i * head_width;
    compute_->kernels->rms_norm(head, weights, config_->norm_epsilon,
                                head_width, head);
  }
}

void Attention::AttendPrompts(const AttentionCall& call) const {
  const kernels::KernelTable& kernels = *compute_->kernels;
  const bool is_large = IsLargeBatch(call.phase);
  for (const SequenceRows& run : call.runs) {
    AttentionGroup group(&spec_, is_large ? kAttentionQueries : kTileQueries);
    group.Add(run);
    Attend(group, is_large ? kernels.large_batch_attention : kernels.attention);
  }
}

// kSplitRows at a time, whosever they are: one region for all of them.
void Attention::AttendGenerated(const AttentionCall& call) const {
  AttentionGroup group(&spec_, kTileQueries);
  const auto attend = [&] {
    if (!group.empty()) Attend(group, compute_->kernels->attention);
    group = AttentionGroup(&spec_, kTileQueries);
  };
  for (SequenceRows rest : call.runs) {
    while (rest.num_rows > 0) {
      SequenceRows taken = rest;
      taken.num_rows = std::min(
          rest.num_rows, AttentionScratch::kSplitRows - group.num_rows());
      group.Add(taken);
      rest.first_row += taken.num_rows;
      rest.first_position += static_cast<int64_t>(taken.num_rows);
      rest.num_rows -= taken.num_rows;
      if (group.num_rows() == AttentionScratch::kSplitRows) attend();
    }
  }
  attend();
}

void Attention::Attend(const AttentionGroup& group, Kernel attend) const {
  if (group.num_pieces() > 1 &&
      group.num_rows() <= AttentionScratch::kSplitRows) {
    AttendPieces(group, attend);
  } else {
    AttendTiles(group, attend);
  }
}

// Every tile by one thread, piece after piece.
void Attention::AttendTiles(const AttentionGroup& group, Kernel attend) const {
  const size_t v_width = spec_.value_width;
  const size_t stride = kernels::PartialAttentionFloats(v_width);
  const size_t num_tiles = group.num_tiles();
  const auto attend_tiles = [&](size_t begin, size_t end, int worker_idx) {
    float* sums = scratch_->sums.row(static_cast<size_t>(worker_idx));
    float* partials = sums + kAttentionQueries * stride;
    for (size_t i = begin; i < end; ++i) {
      const AttentionTile tile = group.tile(i);
      const AttentionTile next_tile =
          group.tile(std::min(i + 1, num_tiles - 1));
      for (size_t piece = 0; piece < tile.num_pieces(); ++piece) {
        const bool has_next = piece + 1 < tile.num_pieces();
        const AttentionPart next = {.tile = has_next ? tile : next_tile,
                                    .first = has_next ? piece + 1 : 0,
                                    .count = 1};
        AttendPart(attend, {.tile = tile, .first = piece, .count = 1}, next,
                   worker_idx, piece == 0 ? sums : partials, 0);
        for (size_t q = 0; q < tile.num_queries() && piece > 0; ++q) {
          compute_->kernels->merge_attention(partials + q * stride, v_width,
                                             sums + q * stride);
        }
      }
      Finish(tile, sums);
    }
  };
  compute_->pool->ParallelFor(num_tiles, 1, attend_tiles);
}

// How many pieces a call reads side by side: as many as it can, while there are
// calls enough for all threads.
size_t Attention::PiecesPerCall(const AttentionGroup& group) const {
  const size_t num_threads = static_cast<size_t>(compute_->pool->num_threads());
  const size_t fair = group.num_tile_pieces() / (4 * num_threads);
  const size_t possible = std::min(kernels::kAttentionPieces,
                                   group.tile_queries() / group.max_queries());
  return std::clamp<size_t>(fair, 1, possible);
}

// Every piece of a tile by any thread: a few rows are enough work for all.
void Attention::AttendPieces(const AttentionGroup& group, Kernel attend) const {
  const compute::Rows& partials = scratch_->partials;
  const size_t num_partials =  // of a piece
      group.num_rows() * spec_.num_heads;
  const size_t per_call = PiecesPerCall(group);
  const size_t num_items = group.num_parts(per_call);
  const auto attend_parts = [&](size_t begin, size_t end, int worker_idx) {
    for (size_t i = begin; i < end; ++i) {
      const AttentionPart part = group.part(i, per_call);
      if (part.count == 0) continue;
      const AttentionPart next =
          group.part(std::min(i + 1, num_items - 1), per_call);
      AttendPart(attend, part, next, worker_idx,
                 partials.row(part.first * num_partials +
                              FirstPartial(group, part.tile)),
                 num_partials * partials.stride);
    }
  };
  // Threads follow the stream of a head for a while, and still end together.
  const size_t num_threads = static_cast<size_t>(compute_->pool->num_threads());
  const size_t grain =
      std::clamp<size_t>(num_items / (8 * num_threads), 1, 8 / per_call);
  compute_->pool->ParallelFor(num_items, grain, attend_parts);
  compute_->pool->ParallelFor(
      group.num_tiles(), 1, [&](size_t begin, size_t end, int /*worker_idx*/) {
        for (size_t i = begin; i < end; ++i) MergePieces(group, group.tile(i));
      });
}

// The place of a tile's first partial sum among those of a piece.
size_t Attention::FirstPartial(const AttentionGroup& group,
                               const AttentionTile& tile) const {
  return (tile.row - group.first_row()) * spec_.num_heads +
         tile.head * tile.num_rows;
}

// The sums of a tile over each of its pieces, sums_stride floats apart;
// prefetches what the next part begins with.
void Attention::AttendPart(Kernel attend, const AttentionPart& part,
                           const AttentionPart& next, int worker_idx,
                           float* sums, size_t sums_stride) const {
  const AttentionTile& tile = part.tile;
  const KvLayout& layout = tile.sequence->layout();
  const KvLayerLayout& layer = layout.layer(layer_idx_);
  const size_t position = part.first * kAttentionPiece;
  const bool is_last = part.first + part.count == tile.num_pieces();
  const PageList pages(part, layer_idx_);
  kernels::AttentionArgs args;
  args.k_width = layer.k_width;
  args.v_width = layer.v_width;
  args.q = scratch_->q.row(tile.row) + tile.head * args.k_width;
  args.q_stride = scratch_->q.stride;
  args.num_tokens = tile.num_rows;
  args.num_heads = tile.num_heads;
  args.k_dtype = layout.k_type;
  args.v_dtype = layout.v_type;
  args.kv_order = layout.order;
  args.k = pages.keys;
  args.k_stride_bytes = layer.k_head_bytes;
  args.v = pages.values;
  args.v_stride_bytes = layer.v_head_bytes;
  args.num_positions = is_last ? tile.position + 1 - position : kAttentionPiece;
  args.is_diagonal = is_last;
  args.scale = 1.0f / std::sqrt(static_cast<float>(args.k_width));
  args.scratch = scratch_->work.row(static_cast<size_t>(worker_idx));
  args.out = sums;
  args.num_pieces = part.count;
  args.out_piece_stride = sums_stride;
  args.next_k = next.tile.sequence->keys(layer_idx_, next.tile.kv_head,
                                         next.first * kPagesOfPiece);
  attend(args);
}

bool Attention::IsLargeBatch(Phase phase) const {
  const kernels::KernelTable& kernels = *compute_->kernels;
  const DType dtype = weights_->q.dtype;
  return phase == Phase::kPrompt && kernels.large_batch_attention != nullptr &&
         kernels.batch_of(dtype) != nullptr;
}

void Attention::MergePieces(const AttentionGroup& group,
                            const AttentionTile& tile) const {
  const compute::Rows& partials = scratch_->partials;
  const size_t v_width = spec_.value_width;
  const size_t num_partials = group.num_rows() * spec_.num_heads;
  const size_t first = FirstPartial(group, tile);
  for (size_t q = first; q < first + tile.num_queries(); ++q) {
    for (size_t piece = 1; piece < tile.num_pieces(); ++piece) {
      compute_->kernels->merge_attention(partials.row(piece * num_partials + q),
                                         v_width, partials.row(q));
    }
  }
  Finish(tile, partials.row(first));
}

void Attention::Finish(const AttentionTile& tile, const float* sums) const {
  const size_t v_width = spec_.value_width;
  for (size_t t = 0; t < tile.num_rows; ++t) {
    float* out = scratch_->attended.row(tile.row + t) + tile.head * v_width;
    for (size_t g = 0; g < tile.num_heads; ++g) {
      compute_->kernels->finish_attention(sums, v_width, out + g * v_width);
      sums += kernels::PartialAttentionFloats(v_width);
    }
  }
}

}  // namespace thermocline::engine
