// Attention over any number of positions, for tests of the kernels.
#ifndef THERMOCLINE_KERNELS_TEST_ATTENTION_H_
#define THERMOCLINE_KERNELS_TEST_ATTENTION_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <vector>

#include "kernels/kernels.h"

namespace thermocline::kernels {

// As AttentionArgs, but of all positions.
struct AttentionCase {
  std::vector<float> q;  // [num_tokens, num_heads, k_width]
  size_t num_tokens = 1;
  size_t num_heads = 1;
  DType k_dtype;
  DType v_dtype;
  KvOrder kv_order = KvOrder::kRows;
  const std::byte* k;
  size_t k_stride_bytes;
  const std::byte* v;
  size_t v_stride_bytes;
  size_t k_width;
  size_t v_width;
  size_t num_positions;  // that the last token sees; the one before, one less
  float scale;
};

// 64-byte aligned floats between two guards.
class GuardedFloats {
 public:
  static constexpr float kGuard = 12345.5f;
  explicit GuardedFloats(size_t n)
      : n_(n),
        floats_(static_cast<float*>(
            ::operator new((n + 32) * sizeof(float), std::align_val_t(64)))) {
    std::fill_n(floats_, n + 32, kGuard);
  }
  ~GuardedFloats() {
    EXPECT_EQ(floats_[15], kGuard) << "written before the beginning";
    EXPECT_EQ(floats_[16 + n_], kGuard) << "written after the end";
    ::operator delete(floats_, std::align_val_t(64));
  }
  GuardedFloats(const GuardedFloats&) = delete;
  GuardedFloats& operator=(const GuardedFloats&) = delete;
  float* data() const { return floats_ + 16; }

 private:
  size_t n_;
  float* floats_;
};

// The outputs [num_tokens, num_heads, v_width]; whole pieces before the last,
// which all tokens' positions lie in, pieces_per_call at a time.
inline std::vector<float> AttendRows(const KernelTable& kernels,
                                     const AttentionCase& c,
                                     size_t pieces_per_call = 1) {
  const size_t num_queries = c.num_tokens * c.num_heads;
  const size_t stride = PartialAttentionFloats(c.v_width);
  const size_t first_seen = c.num_positions - (c.num_tokens - 1);
  const size_t last_piece = (first_seen - 1) / kAttentionPiece;
  const GuardedFloats scratch(AttentionScratchFloats(c.k_width, c.v_width));
  // One more row between the sums of pieces.
  const size_t piece_stride = (num_queries + 1) * stride;
  const GuardedFloats partials((last_piece + 1) * piece_stride);
  for (size_t piece = 0; piece <= last_piece;) {
    const size_t begin = piece * kAttentionPiece;
    const bool is_last = piece == last_piece;
    const size_t num_pieces =
        is_last ? 1 : std::min(pieces_per_call, last_piece - piece);
    kernels.attention(
        {.q = c.q.data(),
         .q_stride = c.num_heads * c.k_width,
         .num_tokens = c.num_tokens,
         .num_heads = c.num_heads,
         .k_dtype = c.k_dtype,
         .v_dtype = c.v_dtype,
         .kv_order = c.kv_order,
         .k = c.k + begin * c.k_stride_bytes,
         .k_stride_bytes = c.k_stride_bytes,
         .v = c.v + begin * c.v_stride_bytes,
         .v_stride_bytes = c.v_stride_bytes,
         .k_width = c.k_width,
         .v_width = c.v_width,
         .num_positions = is_last ? first_seen - begin : kAttentionPiece,
         .is_diagonal = is_last,
         .scale = c.scale,
         .scratch = scratch.data(),
         .out = partials.data() + piece * piece_stride,
         .num_pieces = num_pieces,
         .out_piece_stride = piece_stride,
         .next_k = is_last ? nullptr
                           : c.k + (piece + num_pieces) * kAttentionPiece *
                                       c.k_stride_bytes});
    piece += num_pieces;
  }
  std::vector<float> out(num_queries * c.v_width);
  for (size_t i = 0; i < num_queries; ++i) {
    float* sum = partials.data() + i * stride;
    for (size_t piece = 1; piece <= last_piece; ++piece) {
      kernels.merge_attention(sum + piece * piece_stride, c.v_width, sum);
    }
    kernels.finish_attention(sum, c.v_width, out.data() + i * c.v_width);
  }
  return out;
}

}  // namespace thermocline::kernels

#endif  // THERMOCLINE_KERNELS_TEST_ATTENTION_H_
