// Attention over keys and values in Q8_0 that lie in groups of 64 positions
// (kernels/kv_group.h), for AVX-512 with VNNI. Every vector is one load and,
// for each query, one product of bytes or two; no sum ever crosses the lanes.
//
// Scores: a lane has four quants of one of 16 keys, and meets the same four of
// a query in all lanes.
//
// Values: a lane has one column of four positions. It meets their weights:
// e^score times the scale of the value's block, in 15 bits, whose low and high
// bytes are multiplied one after the other. The weight's factors are rounded
// once each, for a position and a block (GroupScales) and for a query and a
// position (RoundedWeights); their product, in words, is one instruction for 32
// positions. The sums over a group are integers: 64 * 2^15 * 2^7 is 2^28.
//
// Several pieces are read side by side, 512 bytes of each in turn.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention_weights_avx512.h"
#include "kernels/cpu/int8_attention.h"
#include "kernels/cpu/int8_attention_groups.h"
#include "kernels/cpu/int8_attention_scores.h"
#include "kernels/cpu/int8_attention_values.h"

namespace thermocline::kernels {
namespace {

// The weights of a piece, for all positions of its groups; clears its sums.
void AllWeights(const AttentionArgs& args, const Work& work,
                size_t num_positions) {
  for (size_t j = 0; j < work.num_queries; ++j) {
    float* out = work.out + j * work.out_stride;
    BeginSum(args, j, num_positions, work.scores_of(j), out);
    EndSum(args, j, out);
  }
}

// The groups of the first piece, in rows of n elements.
Groups GroupsOf(const AttentionArgs& args, const std::byte* const* pages,
                size_t row_bytes, size_t n) {
  const size_t num_queries = args.num_tokens * args.num_heads;
  const size_t num_positions = args.PositionsOf(num_queries - 1);
  return {.pages = pages,
          .group_bytes = kKvGroup * row_bytes,
          .begin = args.FirstInPages() / kKvGroup,
          .num_groups = (num_positions + kKvGroup - 1) / kKvGroup,
          .num_blocks = n / kBlock};
}

// Where nothing comes next, what was read already is prefetched.
PieceAhead AheadOf(const AttentionArgs& args, const Groups& keys,
                   const Groups& values) {
  const auto next = reinterpret_cast<uintptr_t>(
      args.next_k != nullptr ? args.next_k : keys.group(keys.begin));
  return {.far = {keys.Stream(), values.Stream(), next,
                  kFarBytes / args.num_pieces},
          .near = {keys.Stream(), values.Stream(), next, kNearBytes}};
}

void NeutralSums(const AttentionArgs& args, const Work& work) {
  for (size_t j = 0; j < work.num_queries; ++j) {
    float* out = work.out + j * work.out_stride;
    for (size_t i = 0; i < work.out_stride; i += kLanes) {
      _mm512_store_ps(out + i, _mm512_setzero_ps());
    }
    EndSum(args, j, out);
  }
}

}  // namespace

void Int8AttentionAvx512Vnni(const AttentionArgs& args) {
  const Work work(args);
  if (args.NothingIsSeen()) return NeutralSums(args, work);
  const Groups keys = GroupsOf(args, args.k, args.k_stride_bytes, args.k_width);
  const Groups values =
      GroupsOf(args, args.v, args.v_stride_bytes, args.v_width);
  PieceAhead ahead[kAttentionPieces];
  for (size_t i = 0; i < args.num_pieces; ++i) {
    ahead[i] = AheadOf(args, keys.OfPiece(i), values.OfPiece(i));
  }
  RoundQueries(args, work);
  AllScores(keys, work, ahead);
  for (size_t i = 0; i < args.num_pieces; ++i) {
    AllWeights(args, work.OfPiece(i), keys.num_groups * kKvGroup);
  }
  AllValues(args, work, values, ahead);
}

}  // namespace thermocline::kernels
