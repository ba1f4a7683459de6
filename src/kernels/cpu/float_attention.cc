// Attention over one piece of positions, or a few side by side: scores over all
// keys, their exponentials, the weighted sum of all values. A few queries read
// keys and values as they lie in the cache; for more, a few of them at a time
// become floats in the scratch. The sums are the same code for every type, and
// their order does not depend on how many queries share them.
#include <algorithm>
#include <limits>

#include "kernels/cpu/float_kernels.h"
#include "kernels/cpu/float_targets.h"
#include "kernels/isa.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/float_attention.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/float_attention_rows-inl.h"
#include "kernels/cpu/float_math-inl.h"
#include "kernels/cpu/float_rows-inl.h"

#if HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace thermocline::kernels::HWY_NAMESPACE {

// At a time, unpacked or as they lie in the cache. Values: so near that they
// come in their order, so many that it pays to load and store the sums (with
// four, attention of 64 queries takes 1.17 to 1.24 times as long).
constexpr size_t kKeys = kUnpackedKeys;
constexpr size_t kValues = kUnpackedValues;
// Likewise of each of several pieces.
constexpr size_t kSideBySideValues = 4;
// Side by side: their accumulators with four keys, or four vectors of a value,
// take 16 registers, or 8 of the 16 that AVX2 has.
constexpr size_t kQueries = HWY_TARGET == HWY_AVX2 ? 2 : 4;
// Up to so many queries read keys and values as they lie in the cache: half as
// many keys or vectors side by side, and still the same number of accumulators.
constexpr size_t kFewQueries = 2 * kQueries;

HWY_INLINE size_t PaddedTo(size_t multiple, size_t n) {
  return (n + multiple - 1) / multiple * multiple;
}

// A call's scratch, and where its sums go.
struct Work {
  explicit Work(const AttentionArgs& args)
      : num_queries(args.num_tokens * args.num_heads),
        num_pieces(args.num_pieces),
        has_window(args.HasWindow()),
        k_width(args.k_width),
        k_stride(PaddedTo(16, args.k_width)),
        v_stride(PaddedTo(16, args.v_width)),
        out(args.out),
        out_piece_stride(args.out_piece_stride),
        scores(args.scratch),
        queries(scores + kAttentionQueries * kAttentionScoresStride),
        keys(queries + kAttentionQueries * k_stride),
        values(keys + kKeys * k_stride) {}

  size_t num_queries;
  size_t num_pieces;
  bool has_window;
  size_t k_width;
  size_t k_stride;
  size_t v_stride;
  float* out;
  size_t out_piece_stride;
  float* scores;   // [num_queries, kAttentionScoresStride], of every piece
  float* queries;  // [num_queries, k_stride] times the scale
  float* keys;     // [kKeys, k_stride]
  float* values;   // [kValues, v_stride]

  // With the scores and sums of that piece.
  HWY_INLINE Work OfPiece(size_t piece_idx) const {
    Work work = *this;
    work.scores += piece_idx * num_queries * kAttentionScoresStride;
    work.out += piece_idx * out_piece_stride;
    return work;
  }
};

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

using FourFloats = hn::CappedTag<float, 4>;

// The sums of the lanes of four vectors: half of the work of four separate
// sums.
HWY_INLINE hn::Vec<FourFloats> SumsOfLanes(FloatVec a, FloatVec b, FloatVec c,
                                           FloatVec d) {
  const Floats floats;
  const hn::Repartition<uint64_t, Floats> pairs;
  const FloatVec ab = hn::Add(hn::InterleaveLower(floats, a, b),
                              hn::InterleaveUpper(floats, a, b));
  const FloatVec cd = hn::Add(hn::InterleaveLower(floats, c, d),
                              hn::InterleaveUpper(floats, c, d));
  const auto low = hn::InterleaveLower(pairs, hn::BitCast(pairs, ab),
                                       hn::BitCast(pairs, cd));
  const auto high = hn::InterleaveUpper(pairs, hn::BitCast(pairs, ab),
                                        hn::BitCast(pairs, cd));
  return SumOfBlocks(
      floats, hn::Add(hn::BitCast(floats, low), hn::BitCast(floats, high)));
}

template <size_t kNum>
HWY_INLINE void StoreScores(const FloatVec (&sums)[kNum][4], float* scores) {
  for (size_t j = 0; j < kNum; ++j) {
    hn::StoreU(SumsOfLanes(sums[j][0], sums[j][1], sums[j][2], sums[j][3]),
               FourFloats(), scores + j * kAttentionScoresStride);
  }
}

template <size_t kNum>
HWY_INLINE void StoreScores(const FloatVec (&sums)[kNum][2], float* scores) {
  const hn::Half<FourFloats> two;
  for (size_t j = 0; j < kNum; j += 2, scores += 2 * kAttentionScoresStride) {
    const size_t other = std::min(j + 1, kNum - 1);
    const auto four =
        SumsOfLanes(sums[j][0], sums[j][1], sums[other][0], sums[other][1]);
    hn::StoreU(hn::LowerHalf(two, four), two, scores);
    if (other == j) return;
    hn::StoreU(hn::UpperHalf(two, four), two, scores + kAttentionScoresStride);
  }
}

// Scores of kNum queries with kStep keys.
template <size_t kNum, size_t kStep, class Rows>
HWY_INLINE void ScoreKeys(const Work& work, const Rows& keys, size_t width,
                          size_t query_idx, float* scores) {
  const Floats floats;
  FloatVec sums[kNum][kStep];
  for (size_t j = 0; j < kNum; ++j) {
    for (size_t k = 0; k < kStep; ++k) sums[j][k] = hn::Zero(floats);
  }
  const float* queries = work.queries + query_idx * work.k_stride;
  const auto add = [&](size_t i) HWY_ATTR {
    FloatVec key[kStep];
    for (size_t k = 0; k < kStep; ++k) key[k] = keys.Load(k, i);
    for (size_t j = 0; j < kNum; ++j) {
      const FloatVec q = hn::Load(floats, queries + j * work.k_stride + i);
      for (size_t k = 0; k < kStep; ++k) {
        sums[j][k] = hn::MulAdd(q, key[k], sums[j][k]);
      }
    }
  };
  size_t i = 0;
  for (; i + 32 <= width; i += 32) {
    for (size_t k = 0; k < kStep; ++k) keys.Prefetch(k, i, 32);
    for (size_t j = 0; j < 32; j += kLanes) add(i + j);
  }
  for (; i < width; i += kLanes) add(i);
  StoreScores(sums, scores + query_idx * kAttentionScoresStride);
}

// Calls f with a constant: the number, at most kMax.
template <size_t kMax, class Function>
HWY_INLINE void WithNumber(size_t number, Function f) {
  if constexpr (kMax > 0) {
    if (number == kMax) {
      f.template operator()<kMax>();
    } else {
      WithNumber<kMax - 1>(number, f);
    }
  }
}

// Calls f with a constant number of queries, at most kQueries, and the first.
template <class Function>
HWY_INLINE void ForEachBlock(size_t num_queries, Function f) {
  for (size_t i = 0; i < num_queries; i += kQueries) {
    WithNumber<kQueries>(std::min(kQueries, num_queries - i),
                         [&]<size_t kNum>()
                             HWY_ATTR { f.template operator()<kNum>(i); });
  }
}

// Scores of every query with the keys of a piece from key p on, a few of which
// at a time become floats.
template <class Row>
void ScoreUnpacked(const Stored<Row>& keys, const Work& work, size_t p) {
  const size_t width = PaddedTo(kLanes, work.k_width);
  const Unpacked unpacked = {work.keys, work.k_stride};
  for (; p < keys.num_rows(); p += kKeys) {
    Unpack(keys.At(p), std::min(kKeys, keys.num_rows() - p), work.k_width,
           work.k_stride, work.keys);
    ForEachBlock(work.num_queries, [&]<size_t kNum>(size_t i) HWY_ATTR {
      ScoreKeys<kNum, kKeys>(work, unpacked, width, i, work.scores + p);
    });
  }
}

// Scores of every query with every key that any query sees. With fewer keys
// left than four, the rest of the scratch is what it was: those scores are
// beyond what a query sees.
template <class Row>
void AllScores(const Stored<Row>& keys, const Work& work) {
  size_t num_scored = keys.begin();
  if (work.k_width % kLanes == 0) {
    WithNumber<kFewQueries>(work.num_queries, [&]<size_t kNum>() HWY_ATTR {
      constexpr size_t kStep = kNum <= kQueries ? kKeys : kKeys / 2;
      num_scored = keys.num_rows() / kKeys * kKeys;
      for (size_t r = keys.begin(); r < num_scored; r += kStep) {
        for (size_t i = 0; i < work.num_pieces; ++i) {
          ScoreKeys<kNum, kStep>(work, keys.OfPiece(i).At(r), work.k_width, 0,
                                 work.OfPiece(i).scores + r);
        }
      }
    });
  }
  for (size_t i = 0; i < work.num_pieces; ++i) {
    ScoreUnpacked(keys.OfPiece(i), work.OfPiece(i), num_scored);
  }
}

// Replaces n scores by cap * tanh(score / cap).
void Cap(float cap, size_t n, float* scores) {
  const Floats floats;
  const FloatVec factor = hn::Set(floats, cap);
  for (size_t i = 0; i < n; i += kLanes) {
    const FloatVec x = hn::Div(hn::Load(floats, scores + i), factor);
    const FloatVec capped =
        hn::IfThenElse(hn::IsNaN(x), x, hn::Tanh(floats, x));
    hn::Store(hn::Mul(capped, factor), floats, scores + i);
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
      values.Prefetch(p, i, kVectors * kLanes);
      FloatVec value[kVectors];
      for (size_t c = 0; c < kVectors; ++c) {
        value[c] = values.Load(p, i + c * kLanes);
      }
      for (size_t j = 0; j < kNum; ++j) {
        const FloatVec weight =
            hn::Set(floats, weights[j * kAttentionScoresStride + p]);
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
  i = AddVectors<kNum, kNum <= kQueries ? 4 : 2>(values, weights, begin, end, i,
                                                 width, sums, sums_stride);
  AddVectors<kNum, 1>(values, weights, begin, end, i, width, sums, sums_stride);
}

// out[q] += sum of weights[q][p] * v[p] over the positions of a piece that q
// sees, of the `count` ones from p, for kNum queries from query i.
template <size_t kNum, class Rows>
HWY_INLINE void AddSeenValues(const AttentionArgs& args, const Work& work,
                              const Rows& values, size_t p, size_t count,
                              size_t i) {
  const size_t width = PaddedTo(kLanes, args.v_width);
  const size_t out_stride = PartialAttentionFloats(args.v_width);
  const auto num_seen = [&](size_t query_idx) HWY_ATTR {
    const size_t seen = args.PositionsOf(query_idx);
    return seen <= p ? 0 : std::min(count, seen - p);
  };
  const float* weights = work.scores + i * kAttentionScoresStride + p;
  float* out = work.out + i * out_stride;
  if (work.has_window && args.FirstOf(i + kNum - 1) > p) {
    for (size_t j = 0; j < kNum; ++j) {
      const size_t first = args.FirstOf(i + j);
      AddValues<1>(values, weights + j * kAttentionScoresStride,
                   first <= p ? 0 : first - p, num_seen(i + j), width,
                   out + j * out_stride, 0);
    }
    return;
  }
  const size_t common = num_seen(i);
  AddValues<kNum>(values, weights, 0, common, width, out, out_stride);
  if (num_seen(i + kNum - 1) == common) return;
  for (size_t j = 0; j < kNum; ++j) {
    AddValues<1>(values, weights + j * kAttentionScoresStride, common,
                 num_seen(i + j), width, out + j * out_stride, 0);
  }
}

template <class Row>
void AddUnpacked(const AttentionArgs& args, const Stored<Row>& values,
                 const Work& work) {
  const Unpacked unpacked = {work.values, work.v_stride};
  for (size_t p = values.begin(); p < values.num_rows(); p += kValues) {
    const size_t count = std::min(kValues, values.num_rows() - p);
    Unpack(values.At(p), count, args.v_width, work.v_stride, work.values);
    ForEachBlock(work.num_queries, [&]<size_t kNum>(size_t i) HWY_ATTR {
      AddSeenValues<kNum>(args, work, unpacked, p, count, i);
    });
  }
}

bool UnpacksValues(const AttentionArgs& args, const Work& work) {
  return work.num_queries > kFewQueries || args.v_width % kLanes != 0;
}

// How many values are read together.
size_t ValuesTogether(const AttentionArgs& args, const Work& work) {
  return work.num_pieces > 1 && !UnpacksValues(args, work) ? kSideBySideValues
                                                           : kValues;
}

template <class Row>
void AllValues(const AttentionArgs& args, const Stored<Row>& values,
               const Work& work) {
  if (UnpacksValues(args, work)) {
    for (size_t i = 0; i < work.num_pieces; ++i) {
      AddUnpacked(args, values.OfPiece(i), work.OfPiece(i));
    }
    return;
  }
  const size_t step = values.together;
  WithNumber<kFewQueries>(work.num_queries, [&]<size_t kNum>() HWY_ATTR {
    for (size_t p = values.begin(); p < values.num_rows(); p += step) {
      const size_t count = std::min(step, values.num_rows() - p);
      for (size_t i = 0; i < work.num_pieces; ++i) {
        AddSeenValues<kNum>(args, work.OfPiece(i), values.OfPiece(i).At(p), p,
                            count, 0);
      }
    }
  });
}

// Into the first level of the cache: what is in work leaves room there while a
// few queries read whole vectors of pieces side by side. 1.08 times as fast for
// four heads, 1.05 for seven, on the one Xeon where it was measured. Not on
// AMD's CPUs, where products are slower so. No result shows it, so it is not a
// matter of MakeTable().
bool PrefetchesIntoFirstLevel(const AttentionArgs& args) {
  static const bool kIsAmd = IsAmd();
  const size_t num_queries = args.num_tokens * args.num_heads;
  return !kIsAmd && args.num_pieces > 1 && num_queries > 2 &&
         num_queries <= kFewQueries;
}

// Calls f with a reader of rows of that type.
template <class Function>
HWY_INLINE void WithRow(const AttentionArgs& args, DType dtype, Function f) {
  if (dtype == DType::kF32) return f(F32Row());
  if (dtype == DType::kQ8_0) return f(Q8Row());
  if constexpr (HWY_TARGET == HWY_AVX3) {
    if (PrefetchesIntoFirstLevel(args)) return f(IntoFirstLevel<F16Row>());
  }
  f(F16Row());
}

// What a query that sees nothing has for its largest score.
constexpr float kNoScore = -std::numeric_limits<float>::infinity();

// The weights of all queries; clears their sums.
void AllWeights(const AttentionArgs& args, const Work& work) {
  const size_t out_stride = PartialAttentionFloats(args.v_width);
  for (size_t i = 0; i < work.num_queries; ++i) {
    float* out = work.out + i * out_stride;
    float* scores = work.scores + i * kAttentionScoresStride;
    const size_t num_seen = args.PositionsOf(i);
    std::fill_n(out, out_stride, 0.0f);
    if (args.logit_cap != 0) Cap(args.logit_cap, num_seen, scores);
    if (work.has_window) {
      std::fill_n(scores, std::min(args.FirstOf(i), num_seen), kNoScore);
    }
    Exponentials(scores, num_seen, out + work.v_stride);
    if (work.has_window && args.SeesNothing(i)) out[work.v_stride] = kNoScore;
  }
}

// Where no token sees anything.
void NeutralSums(const AttentionArgs& args, const Work& work) {
  const size_t out_stride = PartialAttentionFloats(args.v_width);
  std::fill_n(work.out, work.num_queries * out_stride, 0.0f);
  for (size_t i = 0; i < work.num_queries; ++i) {
    work.out[i * out_stride + work.v_stride] = kNoScore;
  }
}

// The rows of the first piece, so many of which are read together.
template <class Row>
Stored<Row> StoredOf(const AttentionArgs& args, const PagesOfRows& rows,
                     const PagesOfRows& next, size_t together) {
  const size_t far = kAheadBytes / args.num_pieces / rows.row_bytes;
  return {
      .rows = rows,
      .next = next,
      .together = together,
      .end = PaddedTo(together, rows.num_rows),
      .rows_ahead = PaddedTo(together, std::max(far, together) - together / 2)};
}

// In the pieces behind the first, all at once, what the call before would have
// prefetched had it known more than one page of these keys. (Otherwise four
// heads of 128 elements take 1.06 times as long with 64 MiB of F16, on a newer
// Xeon.)
void PrefetchPieces(const PagesOfRows& keys, size_t num_pieces) {
  const size_t num_bytes =
      std::min(kAheadBytes / num_pieces, kKvPage * keys.row_bytes);
  for (size_t i = 1; i < num_pieces; ++i) {
    PrefetchBytes<2>(reinterpret_cast<uintptr_t>(keys.OfPiece(i).row(0)),
                     num_bytes);
  }
}

void Attention(const AttentionArgs& args) {
  const Work work(args);
  if (args.NothingIsSeen()) return NeutralSums(args, work);
  const size_t num_rows = args.PositionsOf(work.num_queries - 1);
  constexpr size_t kPiecePages = kAttentionPiece / kKvPage;
  const size_t begin = args.FirstInPages();
  const PagesOfRows keys = {args.k, args.k_stride_bytes, begin, num_rows,
                            kPiecePages};
  const PagesOfRows values = {args.v, args.v_stride_bytes, begin, num_rows,
                              kPiecePages};
  // One page, which all pieces prefetch.
  const PagesOfRows next_keys = {&args.next_k, args.k_stride_bytes, 0,
                                 args.next_k == nullptr ? 0 : kKvPage, 0};
  if (args.num_pieces > 1) PrefetchPieces(keys, args.num_pieces);
  UnpackQueries(args, work);
  WithRow(args, args.k_dtype, [&]<class Row>(Row) HWY_ATTR {
    AllScores(StoredOf<Row>(args, keys, values, kKeys), work);
  });
  for (size_t i = 0; i < args.num_pieces; ++i) {
    AllWeights(args, work.OfPiece(i));
  }
  WithRow(args, args.v_dtype, [&]<class Row>(Row) HWY_ATTR {
    AllValues(
        args,
        StoredOf<Row>(args, values, next_keys, ValuesTogether(args, work)),
        work);
  });
}

void MergeAttention(const float* partial, size_t v_width, float* sum) {
  const Floats floats;
  const size_t padded = PaddedTo(16, v_width);
  if (partial[padded] == kNoScore) return;
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

void FloatAttention(Isa isa, const AttentionArgs& args) {
  TC_CALL_FOR_ISA(isa, Attention, args)
}

}  // namespace thermocline::kernels
#endif
