// Attention over one piece of positions: scores over all keys, their
// exponentials, the weighted sum of all values. A few keys or values at a time
// become floats in the scratch, whatever their type and width, for all queries
// of the call: the sums below are the same code for every type, and their order
// does not depend on how many queries share them.
#include <algorithm>
#include <limits>

#include "kernels/cpu/float_kernels.h"
#include "kernels/cpu/float_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/float_attention.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/float_math-inl.h"
#include "kernels/cpu/float_rows-inl.h"

#if HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace thermocline::kernels::HWY_NAMESPACE {

constexpr size_t kKeys = 4;    // in the scratch at a time
constexpr size_t kValues = 4;  // likewise
// Side by side: their accumulators with four keys, or four vectors of a value,
// take 16 registers, or 8 of the 16 that AVX2 has.
constexpr size_t kQueries = HWY_TARGET == HWY_AVX2 ? 2 : 4;
// More than the piece: the rows do not all meet in a few sets of the cache.
constexpr size_t kScoresStride = kAttentionPiece + 16;

HWY_INLINE size_t PaddedTo(size_t multiple, size_t n) {
  return (n + multiple - 1) / multiple * multiple;
}

// A call's scratch.
struct Work {
  explicit Work(const AttentionArgs& args)
      : num_queries(args.num_tokens * args.num_heads),
        k_stride(PaddedTo(16, args.k_width)),
        v_stride(PaddedTo(16, args.v_width)),
        scores(args.scratch),
        queries(scores + kAttentionQueries * kScoresStride),
        keys(queries + kAttentionQueries * k_stride),
        values(keys + kKeys * k_stride) {}

  size_t num_queries;
  size_t k_stride;
  size_t v_stride;
  float* scores;   // [num_queries, kScoresStride]
  float* queries;  // [num_queries, k_stride] times the scale
  float* keys;     // [kKeys, k_stride]
  float* values;   // [kValues, v_stride]
};

// Positions that a query sees.
HWY_INLINE size_t PositionsOf(const AttentionArgs& args, size_t query_idx) {
  return args.num_positions +
         (args.is_diagonal ? query_idx / args.num_heads : 0);
}

// Rows as they lie in the cache.
template <class Row>
struct Stored {
  const std::byte* rows;
  size_t row_bytes;

  HWY_INLINE FloatVec Load(size_t r, size_t i) const {
    return Row::Load(rows + r * row_bytes, i);
  }
};

// Rows in the scratch.
struct Unpacked {
  const float* rows;
  size_t stride;

  HWY_INLINE FloatVec Load(size_t r, size_t i) const {
    return hn::Load(Floats(), rows + r * stride + i);
  }
};

// Asks for the bytes [begin, end) of a piece's rows, num_bytes in all, well
// before they are read; `next` follows the last ones. The hardware alone stops
// at every page, and sees nothing coming while few instructions read.
HWY_INLINE void Prefetch(const std::byte* rows, size_t num_bytes,
                         const std::byte* next, size_t begin, size_t end) {
  constexpr size_t kAhead = 4096;
  for (size_t i = begin + kAhead; i < end + kAhead; i += 64) {
    hwy::Prefetch(i < num_bytes ? rows + i : next + (i - num_bytes));
  }
}

// Rows [0, num_rows) as floats, zeros up to a whole vector, `stride` apart.
template <class Row>
HWY_INLINE void Unpack(const Stored<Row>& stored, size_t num_rows, size_t n,
                       size_t stride, float* out) {
  for (size_t r = 0; r < num_rows; ++r, out += stride) {
    const std::byte* row = stored.rows + r * stored.row_bytes;
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
      for (size_t j = i; j < i + 32; j += kLanes) {
        hn::Store(Row::Load(row, j), Floats(), out + j);
      }
    }
    for (; i + kLanes <= n; i += kLanes) {
      hn::Store(Row::Load(row, i), Floats(), out + i);
    }
    if (i < n) hn::Store(Row::LoadTail(row, i, n - i), Floats(), out + i);
  }
}

void UnpackQueries(const AttentionArgs& args, const Work& work) {
  const FloatVec scale = hn::Set(Floats(), args.scale);
  float* out = work.queries;
  for (size_t t = 0; t < args.num_tokens; ++t) {
    for (size_t g = 0; g < args.num_heads; ++g, out += work.k_stride) {
      const float* q = args.q + t * args.q_stride + g * args.k_width;
      ForEachVector(args.k_width, [&](size_t i, size_t count) HWY_ATTR {
        hn::Store(hn::Mul(LoadN(q + i, count), scale), Floats(), out + i);
      });
    }
  }
}

// The sums of blocks of four lanes.
template <class D>
HWY_INLINE auto SumOfBlocks(D d, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(d) == 4) {
    return v;
  } else {
    const hn::Half<D> half;
    return SumOfBlocks(half,
                       hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}

// out[j] = the sum of the lanes of v[j], j < 4: half of the work of four
// separate sums.
HWY_INLINE void StoreSums(const FloatVec (&v)[4], float* out) {
  const Floats floats;
  const hn::Repartition<uint64_t, Floats> pairs;
  const FloatVec ab = hn::Add(hn::InterleaveLower(floats, v[0], v[1]),
                              hn::InterleaveUpper(floats, v[0], v[1]));
  const FloatVec cd = hn::Add(hn::InterleaveLower(floats, v[2], v[3]),
                              hn::InterleaveUpper(floats, v[2], v[3]));
  const auto low = hn::InterleaveLower(pairs, hn::BitCast(pairs, ab),
                                       hn::BitCast(pairs, cd));
  const auto high = hn::InterleaveUpper(pairs, hn::BitCast(pairs, ab),
                                        hn::BitCast(pairs, cd));
  const auto sums = SumOfBlocks(
      floats, hn::Add(hn::BitCast(floats, low), hn::BitCast(floats, high)));
  hn::StoreU(sums, hn::DFromV<decltype(sums)>(), out);
}

// Scores of kNum queries with kKeys keys.
template <size_t kNum, class Rows>
HWY_INLINE void Scores(const Work& work, const Rows& keys, size_t width,
                       size_t query_idx, float* scores) {
  const Floats floats;
  FloatVec sums[kNum][kKeys];
  for (size_t j = 0; j < kNum; ++j) {
    for (size_t k = 0; k < kKeys; ++k) sums[j][k] = hn::Zero(floats);
  }
  const float* queries = work.queries + query_idx * work.k_stride;
  const auto add = [&](size_t i) HWY_ATTR {
    FloatVec key[kKeys];
    for (size_t k = 0; k < kKeys; ++k) key[k] = keys.Load(k, i);
    for (size_t j = 0; j < kNum; ++j) {
      const FloatVec q = hn::Load(floats, queries + j * work.k_stride + i);
      for (size_t k = 0; k < kKeys; ++k) {
        sums[j][k] = hn::MulAdd(q, key[k], sums[j][k]);
      }
    }
  };
  size_t i = 0;
  for (; i + 32 <= width; i += 32) {
    for (size_t j = 0; j < 32; j += kLanes) add(i + j);
  }
  for (; i < width; i += kLanes) add(i);
  for (size_t j = 0; j < kNum; ++j) {
    StoreSums(sums[j], scores + (query_idx + j) * kScoresStride);
  }
}

// Calls f with a constant number of queries, at most kQueries, and the first.
template <class Function>
HWY_INLINE void ForEachBlock(size_t num_queries, Function f) {
  size_t i = 0;
  for (; i + kQueries <= num_queries; i += kQueries) {
    f.template operator()<kQueries>(i);
  }
  const size_t rest = num_queries - i;
  if (rest == 1) f.template operator()<1>(i);
  if constexpr (kQueries == 4) {
    if (rest == 2) f.template operator()<2>(i);
    if (rest == 3) f.template operator()<3>(i);
  }
}

// Scores of every query with every key that any query sees. With fewer keys
// left than four, the rest of the scratch is what it was: those scores are
// beyond what a query sees.
template <class Row>
void AllScores(const AttentionArgs& args, const Work& work) {
  const size_t num_positions = PositionsOf(args, work.num_queries - 1);
  const size_t width = PaddedTo(kLanes, args.k_width);
  const bool is_direct = work.num_queries <= kQueries && width == args.k_width;
  const Unpacked unpacked = {work.keys, work.k_stride};
  for (size_t p = 0; p < num_positions; p += kKeys) {
    const Stored<Row> stored = {args.k + p * args.k_stride_bytes,
                                args.k_stride_bytes};
    const size_t count = std::min(kKeys, num_positions - p);
    Prefetch(args.k, num_positions * args.k_stride_bytes, args.v,
             p * args.k_stride_bytes, (p + count) * args.k_stride_bytes);
    const auto score_all = [&](const auto& keys) HWY_ATTR {
      ForEachBlock(work.num_queries, [&]<size_t kNum>(size_t i) HWY_ATTR {
        Scores<kNum>(work, keys, width, i, work.scores + p);
      });
    };
    if (is_direct && count == kKeys) {
      score_all(stored);
    } else {
      Unpack(stored, count, args.k_width, work.k_stride, work.keys);
      score_all(unpacked);
    }
  }
}

// e^x for x <= 0, but 0 below e^-64: beside the 1 of the largest score it could
// not be seen in a sum, and products with numbers near the smallest float are
// a hundred times slower than others.
HWY_INLINE FloatVec Weight(FloatVec x) {
  const FloatVec lowest = hn::Set(Floats(), -64.0f);
  return hn::IfThenZeroElse(hn::Lt(x, lowest), BoundedExp(x));
}

// Replaces n scores by e^(score - max); writes the maximum and the sum.
HWY_INLINE void Exponentials(float* scores, size_t n, float* max_and_sum) {
  const Floats floats;
  const FloatVec lowest = hn::Set(floats, std::numeric_limits<float>::lowest());
  FloatVec max = lowest;
  ForEachVector(n, [&](size_t i, size_t count) HWY_ATTR {
    const FloatVec score = hn::Load(floats, scores + i);
    max =
        hn::Max(max, hn::IfThenElse(hn::FirstN(floats, count), score, lowest));
  });
  max = hn::MaxOfLanes(floats, max);
  FloatVec sum = hn::Zero(floats);
  ForEachVector(n, [&](size_t i, size_t count) HWY_ATTR {
    const FloatVec weights = Weight(hn::Sub(hn::Load(floats, scores + i), max));
    hn::Store(weights, floats, scores + i);
    sum = hn::Add(sum, hn::IfThenElseZero(hn::FirstN(floats, count), weights));
  });
  max_and_sum[0] = hn::GetLane(max);
  max_and_sum[1] = hn::GetLane(hn::SumOfLanes(floats, sum));
}

// sums[j] += sum of weights[j][p] * values[p] over the values [begin, end), for
// kNum queries and all vectors from i in steps of kVectors; returns where less
// than that is left.
template <size_t kNum, size_t kVectors, class Rows>
HWY_INLINE size_t AddVectors(const Rows& values, const float* weights,
                             size_t begin, size_t end, size_t i, size_t width,
                             float* sums, size_t sums_stride) {
  const Floats floats;
  for (; i + kVectors * kLanes <= width; i += kVectors * kLanes) {
    FloatVec sum[kNum][kVectors];
    for (size_t j = 0; j < kNum; ++j) {
      for (size_t c = 0; c < kVectors; ++c) {
        sum[j][c] = hn::Load(floats, sums + j * sums_stride + i + c * kLanes);
      }
    }
    for (size_t p = begin; p < end; ++p) {
      FloatVec value[kVectors];
      for (size_t c = 0; c < kVectors; ++c) {
        value[c] = values.Load(p, i + c * kLanes);
      }
      for (size_t j = 0; j < kNum; ++j) {
        const FloatVec weight = hn::Set(floats, weights[j * kScoresStride + p]);
        for (size_t c = 0; c < kVectors; ++c) {
          sum[j][c] = hn::MulAdd(weight, value[c], sum[j][c]);
        }
      }
    }
    for (size_t j = 0; j < kNum; ++j) {
      for (size_t c = 0; c < kVectors; ++c) {
        hn::Store(sum[j][c], floats, sums + j * sums_stride + i + c * kLanes);
      }
    }
  }
  return i;
}

// The same for all elements of the values.
template <size_t kNum, class Rows>
HWY_INLINE void AddValues(const Rows& values, const float* weights,
                          size_t begin, size_t end, size_t width, float* sums,
                          size_t sums_stride) {
  size_t i = 0;
  if constexpr (kNum == 1) {
    i = AddVectors<kNum, 8>(values, weights, begin, end, i, width, sums,
                            sums_stride);
  }
  i = AddVectors<kNum, 4>(values, weights, begin, end, i, width, sums,
                          sums_stride);
  AddVectors<kNum, 1>(values, weights, begin, end, i, width, sums, sums_stride);
}

// out[q] += sum of weights[q][p] * v[p] over the positions that q sees, of the
// `count` ones from p.
template <class Rows>
HWY_INLINE void AddValuesToAll(const AttentionArgs& args, const Work& work,
                               const Rows& values, size_t p, size_t count) {
  const size_t width = PaddedTo(kLanes, args.v_width);
  const size_t out_stride = PartialAttentionFloats(args.v_width);
  const auto num_seen = [&](size_t query_idx) HWY_ATTR {
    const size_t seen = PositionsOf(args, query_idx);
    return seen <= p ? 0 : std::min(count, seen - p);
  };
  ForEachBlock(work.num_queries, [&]<size_t kNum>(size_t i) HWY_ATTR {
    const float* weights = work.scores + i * kScoresStride + p;
    float* out = args.out + i * out_stride;
    const size_t common = num_seen(i);
    AddValues<kNum>(values, weights, 0, common, width, out, out_stride);
    if (num_seen(i + kNum - 1) == common) return;
    for (size_t j = 0; j < kNum; ++j) {
      AddValues<1>(values, weights + j * kScoresStride, common, num_seen(i + j),
                   width, out + j * out_stride, 0);
    }
  });
}

template <class Row>
void AllValues(const AttentionArgs& args, const Work& work) {
  const size_t num_positions = PositionsOf(args, work.num_queries - 1);
  const bool is_direct =
      work.num_queries <= kQueries && args.v_width % kLanes == 0;
  const Unpacked unpacked = {work.values, work.v_stride};
  for (size_t p = 0; p < num_positions; p += kValues) {
    const Stored<Row> stored = {args.v + p * args.v_stride_bytes,
                                args.v_stride_bytes};
    const size_t count = std::min(kValues, num_positions - p);
    Prefetch(args.v, num_positions * args.v_stride_bytes,
             args.k + num_positions * args.k_stride_bytes,
             p * args.v_stride_bytes, (p + count) * args.v_stride_bytes);
    if (is_direct) {
      AddValuesToAll(args, work, stored, p, count);
    } else {
      Unpack(stored, count, args.v_width, work.v_stride, work.values);
      AddValuesToAll(args, work, unpacked, p, count);
    }
  }
}

// Calls f with a reader of rows of that type.
template <class Function>
HWY_INLINE void WithRow(DType dtype, Function f) {
  if (dtype == DType::kF32) return f(F32Row());
  if (dtype == DType::kF16) return f(F16Row());
  f(Q8Row());
}

void Attention(const AttentionArgs& args) {
  const Work work(args);
  UnpackQueries(args, work);
  WithRow(args.k_dtype,
          [&]<class Row>(Row) HWY_ATTR { AllScores<Row>(args, work); });
  const size_t out_stride = PartialAttentionFloats(args.v_width);
  for (size_t i = 0; i < work.num_queries; ++i) {
    float* out = args.out + i * out_stride;
    std::fill_n(out, out_stride, 0.0f);
    Exponentials(work.scores + i * kScoresStride, PositionsOf(args, i),
                 out + work.v_stride);
  }
  WithRow(args.v_dtype,
          [&]<class Row>(Row) HWY_ATTR { AllValues<Row>(args, work); });
}

void MergeAttention(const float* partial, size_t v_width, float* sum) {
  const Floats floats;
  const size_t padded = PaddedTo(16, v_width);
  const FloatVec our_max = hn::Set(floats, sum[padded]);
  const FloatVec their_max = hn::Set(floats, partial[padded]);
  const FloatVec max = hn::Max(our_max, their_max);
  const FloatVec ours = Weight(hn::Sub(our_max, max));
  const FloatVec theirs = Weight(hn::Sub(their_max, max));
  // The last vectors too: of them, the sum of weights is what remains.
  for (size_t i = 0; i < padded + 16; i += kLanes) {
    const FloatVec scaled = hn::Mul(hn::Load(floats, partial + i), theirs);
    hn::Store(hn::MulAdd(hn::Load(floats, sum + i), ours, scaled), floats,
              sum + i);
  }
  sum[padded] = hn::GetLane(max);
}

void FinishAttention(const float* sum, size_t v_width, float* out) {
  const Floats floats;
  const FloatVec total = hn::Set(floats, sum[PaddedTo(16, v_width) + 1]);
  ForEachVector(v_width, [&](size_t i, size_t count) HWY_ATTR {
    StoreN(hn::Div(hn::Load(floats, sum + i), total), out + i, count);
  });
}

void FillAttention(KernelTable& table) {
  table.attention = Attention;
  table.merge_attention = MergeAttention;
  table.finish_attention = FinishAttention;
}

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
