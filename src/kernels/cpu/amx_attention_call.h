// A call of attention in AMX tiles: its queries in blocks, where their sums
// are, and how it ends.
#ifndef THERMOCLINE_KERNELS_CPU_AMX_ATTENTION_CALL_H_
#define THERMOCLINE_KERNELS_CPU_AMX_ATTENTION_CALL_H_

// Empty unless compiled for it, so that it compiles alone anywhere.
#if defined(__AVX512BF16__) && defined(__AMX_TILE__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/amx_attention_split.h"
#include "kernels/cpu/attention_weights_avx512.h"
#include "kernels/kernels.h"

// Unnamed in a header for the reason that int8_avx512.h gives.
namespace thermocline::kernels {
namespace {

constexpr size_t CeilDiv(size_t a, size_t b) { return (a + b - 1) / b; }

class AmxAttentionCall {
 protected:
  // Blocks of up to max_block queries, all as many.
  AmxAttentionCall(const AttentionArgs& args, size_t max_block)
      : args_(args),
        num_queries_(args.num_tokens * args.num_heads),
        num_positions_(args.PositionsOf(num_queries_ - 1)),
        num_blocks_(CeilDiv(num_queries_, max_block)),
        block_queries_(CeilDiv(num_queries_, num_blocks_)),
        key_steps_(args.k_width / kStep),
        out_stride_(PartialAttentionFloats(args.v_width)) {}

  // A block's queries, block_queries_ of them; the last ones overlap.
  size_t FirstOf(size_t block) const {
    return Min(block * block_queries_, num_queries_ - block_queries_);
  }
  // So many of a block's queries the one before has too.
  size_t NumShared(size_t block) const {
    return block * block_queries_ - FirstOf(block);
  }
  float* out_of(size_t piece, size_t query) const {
    return args_.out + piece * args_.out_piece_stride + query * out_stride_;
  }
  // 32 elements of a block's query i, rounded to halves: the elements j and
  // 16 + j. Zero if it has fewer queries.
  Halves RoundQuery(size_t block, size_t i, size_t step) const {
    if (i >= block_queries_) return {};
    const size_t query = FirstOf(block) + i;
    const float* q = args_.q + query / args_.num_heads * args_.q_stride +
                     query % args_.num_heads * args_.k_width + step * kStep;
    const __m512 scale = _mm512_set1_ps(args_.scale);
    return RoundPairs(_mm512_mul_ps(_mm512_loadu_ps(q), scale),
                      _mm512_mul_ps(_mm512_loadu_ps(q + kLanes), scale));
  }

  HalfRows Keys() const { return RowsOf(args_.k, args_.k_stride_bytes); }
  HalfRows Values() const { return RowsOf(args_.v, args_.v_stride_bytes); }
  // The page that is known of the keys of the next call.
  HalfRows NextKeys() const {
    return {.pages = &args_.next_k,
            .row_bytes = args_.k_stride_bytes,
            .begin = 0,
            .num_rows = args_.next_k == nullptr ? 0 : kKvPage};
  }

  // To be called last; false if not all sums are finite.
  bool Finish() const {
    if (!AllFinite()) return false;
    for (size_t q = 0; q < num_queries_ && args_.HasWindow(); ++q) {
      EndSum(args_, q, out_of(0, q));
    }
    return true;
  }

  const AttentionArgs& args_;
  const size_t num_queries_;
  const size_t num_positions_;  // of a piece, of the query that sees most
  const size_t num_blocks_;
  const size_t block_queries_;
  const size_t key_steps_;
  const size_t out_stride_;

 private:
  // Whether all sums are finite. If not, they are not those that are
  // prefetched: what a query does not see may have come into them.
  bool AllFinite() const {
    __mmask16 finite = FirstLanes(kLanes);
    for (size_t i = 0; i < args_.num_pieces; ++i) {
      for (size_t q = 0; q < num_queries_; ++q) {
        const float* out = out_of(i, q);
        for (size_t c = 0; c < out_stride_; c += kLanes) {
          const __m512 x = _mm512_load_ps(out + c);
          finite &= _mm512_cmp_ps_mask(_mm512_sub_ps(x, x), _mm512_setzero_ps(),
                                       _CMP_EQ_OQ);
        }
      }
    }
    return finite == FirstLanes(kLanes);
  }

  HalfRows RowsOf(const std::byte* const* pages, size_t row_bytes) const {
    return {
        .pages = pages,
        .row_bytes = row_bytes,
        .begin = args_.FirstInPages(),
        .num_rows = (args_.num_pieces - 1) * kAttentionPiece + num_positions_};
  }
};

}  // namespace
}  // namespace thermocline::kernels

#endif

#endif  // THERMOCLINE_KERNELS_CPU_AMX_ATTENTION_CALL_H_
