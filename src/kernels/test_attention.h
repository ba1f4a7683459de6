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
  const std::byte* k;  // one page after another, unless k_pages says where
  size_t k_stride_bytes;
  const std::byte* v;
  size_t v_stride_bytes;
  size_t k_width;
  size_t v_width;
  size_t num_positions;  // up to the last token; the one before, one less
  float scale;
  float logit_cap = 0;
  size_t window = 0;  // what a token sees of its last positions; 0: all
  std::vector<const std::byte*> k_pages = {};
  std::vector<const std::byte*> v_pages = {};
};

// The pages of rows that lie one after another.
inline std::vector<const std::byte*> PagesOf(const std::byte* rows,
                                             size_t num_rows,
                                             size_t stride_bytes) {
  std::vector<const std::byte*> pages;
  for (size_t r = 0; r < num_rows; r += kKvPage) {
    pages.push_back(rows + r * stride_bytes);
  }
  return pages;
}

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

// The partial sums of num_pieces pieces from number `piece` on. Pages that no
// token sees are null.
inline void AttendPieces(const KernelTable& kernels, const AttentionCase& c,
                         size_t piece, size_t num_pieces, float* partials,
                         size_t piece_stride) {
  const size_t first_seen = c.num_positions - (c.num_tokens - 1);
  const size_t last_piece = (first_seen - 1) / kAttentionPiece;
  const size_t begin = piece * kAttentionPiece;
  const bool is_last = piece == last_piece;
  const size_t num_seen = is_last ? first_seen - begin : kAttentionPiece;
  const size_t end = (num_pieces - 1) * kAttentionPiece + num_seen +
                     (is_last ? c.num_tokens - 1 : 0);
  const int64_t first_position =
      c.window == 0 ? kNoWindow
                    : static_cast<int64_t>(first_seen) -
                          static_cast<int64_t>(c.window + begin);
  const auto pages = [&](std::vector<const std::byte*> all,
                         const std::byte* rows, size_t stride_bytes) {
    if (all.empty()) all = PagesOf(rows, c.num_positions, stride_bytes);
    const auto first = all.begin() + begin / kKvPage;
    std::vector<const std::byte*> out(first,
                                      first + (end + kKvPage - 1) / kKvPage);
    for (size_t i = 0; i < out.size(); ++i) {
      const auto page_end = static_cast<int64_t>((i + 1) * kKvPage);
      if (page_end <= first_position) out[i] = nullptr;
    }
    return out;
  };
  const std::vector<const std::byte*> k =
      pages(c.k_pages, c.k, c.k_stride_bytes);
  const std::vector<const std::byte*> v =
      pages(c.v_pages, c.v, c.v_stride_bytes);
  const GuardedFloats scratch(AttentionScratchFloats(c.k_width, c.v_width));
  kernels.attention({.q = c.q.data(),
                     .q_stride = c.num_heads * c.k_width,
                     .num_tokens = c.num_tokens,
                     .num_heads = c.num_heads,
                     .k_dtype = c.k_dtype,
                     .v_dtype = c.v_dtype,
                     .kv_order = c.kv_order,
                     .k = k.data(),
                     .k_stride_bytes = c.k_stride_bytes,
                     .v = v.data(),
                     .v_stride_bytes = c.v_stride_bytes,
                     .k_width = c.k_width,
                     .v_width = c.v_width,
                     .num_positions = num_seen,
                     .is_diagonal = is_last,
                     .scale = c.scale,
                     .scratch = scratch.data(),
                     .out = partials,
                     .num_pieces = num_pieces,
                     .out_piece_stride = piece_stride,
                     .next_k = is_last ? nullptr : k.front(),
                     .logit_cap = c.logit_cap,
                     .first_position = first_position});
}

// The outputs [num_tokens, num_heads, v_width]; whole pieces before the last,
// which all tokens' positions lie in, pieces_per_call at a time.
inline std::vector<float> AttendRows(const KernelTable& kernels,
                                     const AttentionCase& c,
                                     size_t pieces_per_call = 1) {
  const size_t num_queries = c.num_tokens * c.num_heads;
  const size_t stride = PartialAttentionFloats(c.v_width);
  const size_t first_seen = c.num_positions - (c.num_tokens - 1);
  const size_t last_piece = (first_seen - 1) / kAttentionPiece;
  // One more row between the sums of pieces.
  const size_t piece_stride = (num_queries + 1) * stride;
  const GuardedFloats partials((last_piece + 1) * piece_stride);
  for (size_t piece = 0; piece <= last_piece;) {
    const size_t num_pieces =
        piece == last_piece ? 1 : std::min(pieces_per_call, last_piece - piece);
    AttendPieces(kernels, c, piece, num_pieces,
                 partials.data() + piece * piece_stride, piece_stride);
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
