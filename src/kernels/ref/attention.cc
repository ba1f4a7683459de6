#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kernels/ref/ref.h"
#include "tensor/blocks.h"
#include "tensor/float16.h"

namespace thermocline::kernels::ref {
namespace {

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

void Scores(const AttentionArgs& args, const float* q, float* scores) {
  for (size_t p = 0; p < args.num_positions; ++p) {
    const std::byte* k = args.k + p * args.k_stride_bytes;
    double dot = 0;
    for (size_t i = 0; i < args.k_width; ++i) {
      dot += static_cast<double>(q[i]) * ElementAt(args.k_dtype, k, i);
    }
    scores[p] = static_cast<float>(dot * args.scale);
  }
}

// Replaces scores by exp(score - maximum); returns their sum.
double Exponentials(float* scores, size_t num_positions) {
  const float max = *std::max_element(scores, scores + num_positions);
  double sum = 0;
  for (size_t p = 0; p < num_positions; ++p) {
    const double weight = std::exp(static_cast<double>(scores[p]) - max);
    scores[p] = static_cast<float>(weight);
    sum += weight;
  }
  return sum;
}

}  // namespace

void Attention(const AttentionArgs& args) {
  for (size_t g = 0; g < args.num_queries; ++g) {
    float* scores = args.scores + g * args.num_positions;
    Scores(args, args.q + g * args.k_width, scores);
    const double total = Exponentials(scores, args.num_positions);
    for (size_t i = 0; i < args.v_width; ++i) {
      double sum = 0;
      for (size_t p = 0; p < args.num_positions; ++p) {
        sum += static_cast<double>(scores[p]) *
               ElementAt(args.v_dtype, args.v + p * args.v_stride_bytes, i);
      }
      args.out[g * args.v_width + i] = static_cast<float>(sum / total);
    }
  }
}

}  // namespace thermocline::kernels::ref
