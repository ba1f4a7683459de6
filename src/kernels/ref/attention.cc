#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "kernels/kv_group.h"
#include "kernels/ref/ref.h"
#include "tensor/blocks.h"
#include "tensor/float16.h"

namespace thermocline::kernels::ref {
namespace {

// Where a partial sum has its maximum; the sum of weights follows.
size_t MaxOffset(size_t v_width) {
  return PartialAttentionFloats(v_width) - 16;
}

// Element `idx` of a row of the KV cache.
float ElementAt(DType dtype, const std::byte* row, size_t idx) {
  if (dtype == DType::kF32) {
    float value;
    std::memcpy(&value, row + idx * sizeof(value), sizeof(value));
    return value;
  }
  if (dtype == DType::kF16) {
    uint16_t half;
    std::memcpy(&half, row + idx * sizeof(half), sizeof(half));
    return F16ToF32(half);
  }
  TC_DCHECK(dtype == DType::kQ8_0);
  BlockQ8_0 block;
  std::memcpy(&block, row + idx / kBlock * sizeof(block), sizeof(block));
  return F16ToF32(block.d) * block.qs[idx % kBlock];
}

// Element i of a position in a group of rows of n elements; place(): KeyInGroup
// or ValueInGroup, whose quants have these bits flipped.
template <class Place>
float ElementInGroup(const std::byte* group, size_t n, size_t position,
                     size_t i, Place place, std::byte flipped) {
  uint16_t scale;
  std::memcpy(&scale, group + ScaleInGroup(i / kBlock, position),
              sizeof(scale));
  const std::byte quant =
      group[place(n / kBlock, i / kBlock, position, i % kBlock)];
  return F16ToF32(scale) * static_cast<int8_t>(quant ^ flipped);
}

// Element i of the key of position p.
float KeyAt(const AttentionArgs& args, size_t p, size_t i) {
  const std::byte* page = args.k[p / kKvPage];
  const size_t position = p % kKvPage;
  if (args.kv_order == KvOrder::kRows) {
    return ElementAt(args.k_dtype, page + position * args.k_stride_bytes, i);
  }
  return ElementInGroup(page, args.k_width, position, i, KeyInGroup,
                        std::byte{0x80});
}

// Element i of the value of position p.
float ValueAt(const AttentionArgs& args, size_t p, size_t i) {
  const std::byte* page = args.v[p / kKvPage];
  const size_t position = p % kKvPage;
  if (args.kv_order == KvOrder::kRows) {
    return ElementAt(args.v_dtype, page + position * args.v_stride_bytes, i);
  }
  return ElementInGroup(page, args.v_width, position, i, ValueInGroup,
                        std::byte{0});
}

float Capped(double score, float cap) {
  if (cap != 0) score = cap * std::tanh(score / cap);
  return static_cast<float>(score);
}

// The scores of the positions [begin, end); returns the largest. Not -infinity,
// from which -infinity is no number away; NaN stays.
float Scores(const AttentionArgs& args, const float* q, size_t begin,
             size_t end, float* scores) {
  for (size_t p = begin; p < end; ++p) {
    double dot = 0;
    for (size_t i = 0; i < args.k_width; ++i) {
      dot += static_cast<double>(q[i]) * KeyAt(args, p, i);
    }
    scores[p] = Capped(dot * args.scale, args.logit_cap);
  }
  return std::max(*std::max_element(scores + begin, scores + end),
                  std::numeric_limits<float>::lowest());
}

// Replaces scores by exp(score - max); returns their sum.
double Exponentials(float* scores, size_t num_positions, float max) {
  double sum = 0;
  for (size_t p = 0; p < num_positions; ++p) {
    const double weight = std::exp(static_cast<double>(scores[p]) - max);
    scores[p] = static_cast<float>(weight);
    sum += weight;
  }
  return sum;
}

// A query that sees the positions [begin, end).
void AttendOne(const AttentionArgs& args, const float* q, size_t begin,
               size_t end, float* out) {
  std::fill_n(out, PartialAttentionFloats(args.v_width), 0.0f);
  float& max = out[MaxOffset(args.v_width)];
  max = -std::numeric_limits<float>::infinity();
  if (begin >= end) return;
  float* scores = args.scratch;
  max = Scores(args, q, begin, end, scores);
  out[MaxOffset(args.v_width) + 1] =
      static_cast<float>(Exponentials(scores + begin, end - begin, max));
  for (size_t i = 0; i < args.v_width; ++i) {
    double sum = 0;
    for (size_t p = begin; p < end; ++p) {
      sum += static_cast<double>(scores[p]) * ValueAt(args, p, i);
    }
    out[i] = static_cast<float>(sum);
  }
}

void AttendPiece(const AttentionArgs& args) {
  float* out = args.out;
  for (size_t i = 0; i < args.num_tokens * args.num_heads; ++i) {
    const size_t end = args.PositionsOf(i);
    TC_DCHECK(end >= 1 && end <= kAttentionPiece);
    AttendOne(args,
              args.q + i / args.num_heads * args.q_stride +
                  i % args.num_heads * args.k_width,
              args.FirstOf(i), end, out);
    out += PartialAttentionFloats(args.v_width);
  }
}

}  // namespace

void Attention(const AttentionArgs& args) {
  TC_DCHECK(args.num_pieces * args.num_tokens * args.num_heads <=
            kAttentionQueries);
  TC_DCHECK(args.num_pieces >= 1 && args.num_pieces <= kAttentionPieces);
  TC_DCHECK(args.kv_order == KvOrder::kRows ||
            (args.k_dtype == DType::kQ8_0 && args.v_dtype == DType::kQ8_0));
  TC_DCHECK(args.num_pieces == 1 ||
            (args.num_positions == kAttentionPiece && !args.is_diagonal));
  AttentionArgs piece = args;
  for (size_t i = 0; i < args.num_pieces; ++i) {
    AttendPiece(piece);
    piece.k += kAttentionPiece / kKvPage;
    piece.v += kAttentionPiece / kKvPage;
    piece.out += args.out_piece_stride;
  }
}

void MergeAttention(const float* partial, size_t v_width, float* sum) {
  const size_t max_offset = MaxOffset(v_width);
  if (partial[max_offset] == -std::numeric_limits<float>::infinity()) return;
  const float max = std::max(sum[max_offset], partial[max_offset]);
  const double ours = std::exp(static_cast<double>(sum[max_offset]) - max);
  const double theirs =
      std::exp(static_cast<double>(partial[max_offset]) - max);
  const auto merge = [&](size_t i) {
    sum[i] = static_cast<float>(sum[i] * ours + partial[i] * theirs);
  };
  for (size_t i = 0; i < v_width; ++i) merge(i);
  sum[max_offset] = max;
  merge(max_offset + 1);
}

void FinishAttention(const float* sum, size_t v_width, float* out) {
  const float total = sum[MaxOffset(v_width) + 1];
  for (size_t i = 0; i < v_width; ++i) out[i] = sum[i] / total;
}

}  // namespace thermocline::kernels::ref
