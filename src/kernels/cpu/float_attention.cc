// Attention of the query heads that share a KV head, in three passes: scores
// over K, softmax, weighted sum over V. All heads of the group share the reads
// of K and V.
#include <algorithm>
#include <limits>

#include "kernels/cpu/float_kernels.h"
#include "kernels/cpu/float_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/float_attention.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/float_math-inl.h"
#include "kernels/cpu/float_rows-inl.h"

#if HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace thermocline::kernels::HWY_NAMESPACE {

// scores[g][p] = dot(q[g], k[p]): a product with K as the weights.
template <class Row>
void Scores(const AttentionArgs& args) {
  FloatMatMul<Row>({.weights = args.k,
                    .row_bytes = args.k_stride_bytes,
                    .num_rows = args.num_positions,
                    .n = args.k_width,
                    .x = reinterpret_cast<const std::byte*>(args.q),
                    .x_stride_bytes = args.k_width * sizeof(float),
                    .num_tokens = args.num_queries,
                    .out = args.scores,
                    .out_stride = args.num_positions});
}

// Replaces scores by softmax(scale * scores).
void Softmax(float* scores, size_t n, float scale) {
  const Floats floats;
  const FloatVec lowest = hn::Set(floats, std::numeric_limits<float>::lowest());
  const FloatVec scales = hn::Set(floats, scale);
  FloatVec max = lowest;
  ForEachVector(n, [&](size_t i, size_t count) HWY_ATTR {
    const FloatVec scaled = hn::Mul(LoadN(scores + i, count), scales);
    StoreN(scaled, scores + i, count);
    max =
        hn::Max(max, hn::IfThenElse(hn::FirstN(floats, count), scaled, lowest));
  });
  max = hn::MaxOfLanes(floats, max);
  FloatVec sum = hn::Zero(floats);
  ForEachVector(n, [&](size_t i, size_t count) HWY_ATTR {
    const FloatVec weights = BoundedExp(hn::Sub(LoadN(scores + i, count), max));
    StoreN(weights, scores + i, count);
    sum = hn::Add(sum, hn::IfThenElseZero(hn::FirstN(floats, count), weights));
  });
  const FloatVec inverse =
      hn::Div(hn::Set(floats, 1.0f), hn::SumOfLanes(floats, sum));
  ForEachVector(n, [&](size_t i, size_t count) HWY_ATTR {
    StoreN(hn::Mul(LoadN(scores + i, count), inverse), scores + i, count);
  });
}

// out[g] += sum over kPositions rows of scores[g][p] * v[p], in the order of
// p, for kQueries queries from g.
template <class Row, size_t kQueries, size_t kPositions>
HWY_INLINE void AddValues(const AttentionArgs& args, size_t g, size_t p) {
  FloatVec weights[kQueries][kPositions];
  for (size_t j = 0; j < kQueries; ++j) {
    for (size_t k = 0; k < kPositions; ++k) {
      weights[j][k] =
          hn::Set(Floats(), args.scores[(g + j) * args.num_positions + p + k]);
    }
  }
  const std::byte* v = args.v + p * args.v_stride_bytes;
  float* out = args.out + g * args.v_width;
  ForEachVector(args.v_width, [&](size_t i, size_t count) HWY_ATTR {
    FloatVec sums[kQueries];
    for (size_t j = 0; j < kQueries; ++j) {
      sums[j] = LoadN(out + j * args.v_width + i, count);
    }
    for (size_t k = 0; k < kPositions; ++k) {
      const std::byte* row = v + k * args.v_stride_bytes;
      const FloatVec values =
          count == kLanes ? Row::Load(row, i) : Row::LoadTail(row, i, count);
      for (size_t j = 0; j < kQueries; ++j) {
        sums[j] = hn::MulAdd(weights[j][k], values, sums[j]);
      }
    }
    for (size_t j = 0; j < kQueries; ++j) {
      StoreN(sums[j], out + j * args.v_width + i, count);
    }
  });
}

template <class Row, size_t kPositions>
HWY_INLINE void AddValuesToAll(const AttentionArgs& args, size_t p) {
  size_t g = 0;
  for (; g + 2 <= args.num_queries; g += 2) {
    AddValues<Row, 2, kPositions>(args, g, p);
  }
  if (g < args.num_queries) AddValues<Row, 1, kPositions>(args, g, p);
}

// out[g] = sum_p scores[g][p] * v[p]
template <class Row>
void WeightedValues(const AttentionArgs& args) {
  std::fill_n(args.out, args.num_queries * args.v_width, 0.0f);
  size_t p = 0;
  for (; p + 4 <= args.num_positions; p += 4) {
    AddValuesToAll<Row, 4>(args, p);
  }
  for (; p < args.num_positions; ++p) AddValuesToAll<Row, 1>(args, p);
}

// Calls f with a reader of rows of that type.
template <class Function>
HWY_INLINE void WithRow(DType dtype, Function f) {
  if (dtype == DType::kF32) return f(F32Row());
  if (dtype == DType::kF16) return f(F16Row());
  f(Q8Row());
}

void Attention(const AttentionArgs& args) {
  WithRow(args.k_dtype, [&]<class Row>(Row) HWY_ATTR { Scores<Row>(args); });
  for (size_t g = 0; g < args.num_queries; ++g) {
    Softmax(args.scores + g * args.num_positions, args.num_positions,
            args.scale);
  }
  WithRow(args.v_dtype,
          [&]<class Row>(Row) HWY_ATTR { WeightedValues<Row>(args); });
}

void FillAttention(KernelTable& table) { table.attention = Attention; }

}  // namespace thermocline::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace thermocline::kernels {

void FillFloatAttention(Isa isa, KernelTable& table) {
  TC_CALL_FOR_ISA(isa, FillAttention, table)
}

}  // namespace thermocline::kernels
#endif
