// Products of F32, F16 and BF16 weights with f32 activations: of a matrix, and
// of the rows in a list.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/ahead.h"
#include "kernels/cpu/float_kernels.h"
#include "kernels/cpu/float_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/float_matmul.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/float_rows-inl.h"

#if HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace thermocline::kernels::HWY_NAMESPACE {

// How far ahead of its use a weight is prefetched in its stream, into the first
// level of the cache; into the second kStreamAheadBytes. At once into the
// first, 2 KiB ahead, F16 takes 1.07 times as long; at 512 bytes 1.03 times.
constexpr size_t kNearBytes = 1024;

// What is prefetched while kRows rows are multiplied with one token or the
// first few: Line() is called once per cache line of a row, `offset` bytes
// behind the rows' beginnings.
struct PrefetchNothing {
  template <size_t kRows>
  HWY_INLINE void Line(const std::byte* const (&)[kRows], size_t) const {}
};

// Streams, of which left_bytes begin with these rows.
struct PrefetchStreams {
  size_t left_bytes;
  size_t bytes_past_end;  // of the way to what comes behind a stream

  template <size_t kRows>
  HWY_INLINE void Line(const std::byte* const (&rows)[kRows],
                       size_t offset) const {
    const bool is_past_end = offset + kStreamAheadBytes >= left_bytes;
    const size_t far = kStreamAheadBytes + (is_past_end ? bytes_past_end : 0);
    for (const std::byte* row : rows) {
      const uintptr_t line = reinterpret_cast<uintptr_t>(row) + offset;
      PrefetchLine<2>(line + far);
      PrefetchLine<3>(line + kNearBytes);
    }
  }
};

// Listed rows, which have been prefetched: the caller's lines.
struct PrefetchList {
  AheadCursor lines;

  template <size_t kRows>
  HWY_INLINE void Line(const std::byte* const (&)[kRows], size_t) {
    const PrefetchedLines now = lines.Take<kRows>();
    if (now) PrefetchPart<kRows, 1>(now, 0);
  }
};

// out[t * out_stride + r] = dot(weight row r, x[t]) for kRows rows and kTokens
// tokens. One accumulator per element, lane i taking the terms i, i + kLanes,
// ..: the block size changes which sums run side by side, never a sum.
template <class Row, size_t kRows, size_t kTokens, class Prefetch>
HWY_INLINE void DotBlock(const std::byte* const (&rows)[kRows],
                         Prefetch& prefetch, const std::byte* x,
                         size_t x_stride_bytes, size_t n, float* out,
                         size_t out_stride) {
  const Floats floats;
  FloatVec sums[kRows][kTokens];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t t = 0; t < kTokens; ++t) sums[r][t] = hn::Zero(floats);
  }
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const size_t offset = i * Row::kBytesOf32 / 32;
    if (offset % kLineBytes == 0) prefetch.Line(rows, offset);
    FloatVec x_lanes[kTokens];
    for (size_t t = 0; t < kTokens; ++t) {
      x_lanes[t] = F32Row::Load(x + t * x_stride_bytes, i);
    }
    for (size_t r = 0; r < kRows; ++r) {
      const FloatVec row = Row::Load(rows[r], i);
      for (size_t t = 0; t < kTokens; ++t) {
        sums[r][t] = hn::MulAdd(row, x_lanes[t], sums[r][t]);
      }
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t t = 0; t < kTokens; ++t) {
      if (i < n) {
        sums[r][t] = hn::MulAdd(
            Row::LoadTail(rows[r], i, n - i),
            F32Row::LoadTail(x + t * x_stride_bytes, i, n - i), sums[r][t]);
      }
      out[t * out_stride + r] = hn::GetLane(hn::SumOfLanes(floats, sums[r][t]));
    }
  }
}

// What the tokens of a product share, whose rows are somewhere.
struct Tokens {
  const std::byte* x;
  size_t x_stride_bytes;
  size_t n;
  float* out;  // of token 0
  size_t out_stride;
};

// DotBlock() for tokens [t, t_end). Prefetches with the first of them.
template <class Row, size_t kRows, class Prefetch>
HWY_INLINE void DotTokens(const std::byte* const (&rows)[kRows],
                          Prefetch& prefetch, const Tokens& tokens, size_t t,
                          size_t t_end) {
  const auto dot = [&]<size_t kT>(auto& prefetch_now) HWY_ATTR {
    const std::byte* x = tokens.x + t * tokens.x_stride_bytes;
    float* out = tokens.out + t * tokens.out_stride;
    // 4 x 4 accumulators do not fit the 16 registers of AVX2.
    if constexpr (kRows == 4 && kT == 4 && HWY_TARGET == HWY_AVX2) {
      DotBlock<Row, 2, kT>({rows[0], rows[1]}, prefetch_now, x,
                           tokens.x_stride_bytes, tokens.n, out,
                           tokens.out_stride);
      DotBlock<Row, 2, kT>({rows[2], rows[3]}, prefetch_now, x,
                           tokens.x_stride_bytes, tokens.n, out + 2,
                           tokens.out_stride);
    } else {
      DotBlock<Row, kRows, kT>(rows, prefetch_now, x, tokens.x_stride_bytes,
                               tokens.n, out, tokens.out_stride);
    }
    t += kT;
  };
  PrefetchNothing nothing;
  bool is_first = true;
  const auto dot_prefetching = [&]<size_t kT>() HWY_ATTR {
    if (is_first) {
      dot.template operator()<kT>(prefetch);
    } else {
      dot.template operator()<kT>(nothing);
    }
    is_first = false;
  };
  while (t + 4 <= t_end) dot_prefetching.template operator()<4>();
  while (t + 2 <= t_end) dot_prefetching.template operator()<2>();
  if (t < t_end) dot_prefetching.template operator()<1>();
}

// One token and the rows from number `row` on, one by one.
template <class Row>
void MultiplyRest(const MatMulArgs& args, size_t row) {
  PrefetchNothing nothing;
  for (; row < args.num_rows; ++row) {
    DotBlock<Row, 1, 1>({args.weights + row * args.row_bytes}, nothing, args.x,
                        args.x_stride_bytes, args.n, args.out + row,
                        args.out_stride);
  }
}

// One token. Streams, each a part of the rows from its first to its last:
// memory delivers more to a few streams than to one, and a stream that goes on
// forever can be prefetched ahead of its use, by the hardware or here.
template <class Row, size_t kCount, bool kPrefetches>
void MultiplyStreams(const MatMulArgs& args) {
  const size_t stream_rows = args.num_rows / kCount;
  const size_t stream_bytes = stream_rows * args.row_bytes;
  const auto dot = [&]<size_t kRows>(const std::byte* const(&rows)[kRows],
                                     auto& prefetch, float* out) HWY_ATTR {
    DotBlock<Row, kRows, 1>(rows, prefetch, args.x, args.x_stride_bytes, args.n,
                            out, args.out_stride);
  };
  PrefetchNothing nothing;
  for (size_t r = 0; r < stream_rows; ++r) {
    const size_t begin = r * args.row_bytes;
    const std::byte* rows[kCount];
    for (size_t s = 0; s < kCount; ++s) {
      rows[s] = args.weights + begin + s * stream_bytes;
    }
    float dots[kCount];
    if (kPrefetches && args.num_rows >= kStreamRows) {
      // Past the streams' ends the caller's next rows begin, whose first stream
      // is where the last of these ends.
      PrefetchStreams prefetch = {stream_bytes - begin,
                                  (kCount - 1) * stream_bytes};
      dot(rows, prefetch, dots);
    } else {
      dot(rows, nothing, dots);
    }
    for (size_t s = 0; s < kCount; ++s) {
      args.out[r + s * stream_rows] = dots[s];
    }
  }
  MultiplyRest<Row>(args, kCount * stream_rows);
}

// MultiplyStreams() for streams that lie a multiple of a page apart: read at
// one place of their pages they are slower, so each is a quarter of a page
// behind the one before it. Every sum is the one that DotBlock() makes.
template <class Row>
class StaggeredStreams {
 public:
  // Whether streams lie so, and rows are whole steps.
  static bool Fit(const MatMulArgs& args) {
    return args.num_rows / kStreams * args.row_bytes % kPageBytes == 0 &&
           args.n > 0 && args.row_bytes * 32 == args.n * Row::kBytesOf32 &&
           args.n % kElems == 0 && args.num_rows >= kStreamRows;
  }

  explicit StaggeredStreams(const MatMulArgs& args)
      : args_(args),
        rows_(args.num_rows / kStreams),
        stream_bytes_(rows_ * args.row_bytes) {}

  void Run() {
    const size_t num_steps = stream_bytes_ / kStepBytes;  // of a page at least
    Place places[kStreams];
    for (size_t s = 0; s < kStreams; ++s) {
      places[s] = {args_.weights + s * stream_bytes_, args_.x,
                   args_.out + s * rows_, stream_bytes_};
      for (size_t i = kLag * s; i < kMostLag; ++i) Step<1>(places + s);
    }
    for (size_t i = kMostLag; i < num_steps; ++i) Step<kStreams>(places);
    for (size_t s = 1; s < kStreams; ++s) {
      for (size_t i = 0; i < kLag * s; ++i) Step<1>(places + s);
    }
    MultiplyRest<Row>(args_, kStreams * rows_);
  }

 private:
  static constexpr size_t kStepBytes = 512;
  static constexpr size_t kElems = kStepBytes * 32 / Row::kBytesOf32;
  static constexpr size_t kLag = 2;  // steps behind the stream before
  static constexpr size_t kMostLag = kLag * (kStreams - 1);

  // Where a stream is; its sum so far.
  struct Place {
    const std::byte* weights;
    const std::byte* x;
    float* out;
    size_t left_bytes;  // of the stream
    HWY_ALIGN float sums[kLanes] = {};
  };

  // The next step of kCount streams.
  template <size_t kCount>
  HWY_INLINE void Step(Place* places) {
    const Floats floats;
    FloatVec sums[kCount];
    for (size_t s = 0; s < kCount; ++s) {
      sums[s] = hn::Load(floats, places[s].sums);
    }
    const size_t bytes_past_end = (kStreams - 1) * stream_bytes_;
    for (size_t i = 0; i < kElems; i += kLanes) {
      const size_t offset = i * Row::kBytesOf32 / 32;
      for (size_t s = 0; s < kCount; ++s) {
        const Place& place = places[s];
        if (offset % kLineBytes == 0) {
          PrefetchStreams{place.left_bytes, bytes_past_end}.template Line<1>(
              {place.weights}, offset);
        }
        sums[s] = hn::MulAdd(Row::Load(place.weights, i),
                             F32Row::Load(place.x, i), sums[s]);
      }
    }
    for (size_t s = 0; s < kCount; ++s) {
      hn::Store(sums[s], floats, places[s].sums);
      Advance(places[s]);
    }
  }

  HWY_INLINE void Advance(Place& place) const {
    place.weights += kStepBytes;
    place.x += kElems * sizeof(float);
    place.left_bytes -= kStepBytes;
    if (place.left_bytes % args_.row_bytes != 0) return;
    const Floats floats;
    place.x = args_.x;
    *place.out++ =
        hn::GetLane(hn::SumOfLanes(floats, hn::Load(floats, place.sums)));
    hn::Store(hn::Zero(floats), floats, place.sums);
  }

  const MatMulArgs& args_;
  size_t rows_;  // of a stream
  size_t stream_bytes_;
};

// Four streams read best. But where the input fills half of a first-level cache
// of 32 KiB, the weights of a few rows push it out before the next rows want
// it: there Zen 4 reads six rows for each load of it at 1.13 times the speed.
template <class Row, bool kPrefetches>
void MultiplyOne(const MatMulArgs& args) {
  constexpr size_t kWideBytes = 16 << 10;
  if (!kPrefetches && args.n * sizeof(float) > kWideBytes) {
    MultiplyStreams<Row, 6, kPrefetches>(args);
  } else if (kPrefetches && StaggeredStreams<Row>::Fit(args)) {
    StaggeredStreams<Row>(args).Run();
  } else {
    MultiplyStreams<Row, kStreams, kPrefetches>(args);
  }
}

// The contract of MatMulFn for float rows. Four rows at a time, so that each
// load of x serves four; tokens in chunks whose x stays in the L2 cache while
// all rows pass by.
template <class Row, bool kPrefetches>
void FloatMatMul(const MatMulArgs& args) {
  if (args.num_tokens == 1) {
    MultiplyOne<Row, kPrefetches>(args);
    return;
  }
  constexpr size_t kChunkBytes = 256 * 1024;
  const size_t x_bytes = std::max<size_t>(args.n, 1) * sizeof(float);
  const size_t chunk = std::max<size_t>(kChunkBytes / x_bytes, 4) / 4 * 4;
  PrefetchNothing nothing;
  const auto row_at = [&](size_t r) HWY_ATTR {
    return args.weights + r * args.row_bytes;
  };
  for (size_t t = 0; t < args.num_tokens; t += chunk) {
    const size_t t_end = std::min(t + chunk, args.num_tokens);
    Tokens tokens = {args.x, args.x_stride_bytes, args.n, args.out,
                     args.out_stride};
    size_t r = 0;
    for (; r + 4 <= args.num_rows; r += 4) {
      tokens.out = args.out + r;
      DotTokens<Row, 4>(
          {row_at(r), row_at(r + 1), row_at(r + 2), row_at(r + 3)}, nothing,
          tokens, t, t_end);
    }
    for (; r < args.num_rows; ++r) {
      tokens.out = args.out + r;
      DotTokens<Row, 1>({row_at(r)}, nothing, tokens, t, t_end);
    }
  }
}

// The contract of DotRowsFn for float rows.
template <class Row>
void FloatDotRows(const DotRowsArgs& args) {
  PrefetchList prefetch = {.lines = AheadCursor(args.ahead)};
  const auto row_at = [&](size_t i) HWY_ATTR {
    return args.rows + args.ids[i] * args.row_bytes;
  };
  Tokens tokens = {args.x, args.x_stride_bytes, args.n, args.out,
                   args.out_stride};
  size_t i = 0;
  for (; i + 4 <= args.num_rows; i += 4) {
    tokens.out = args.out + i;
    DotTokens<Row, 4>({row_at(i), row_at(i + 1), row_at(i + 2), row_at(i + 3)},
                      prefetch, tokens, 0, args.num_tokens);
  }
  for (; i < args.num_rows; ++i) {
    tokens.out = args.out + i;
    DotTokens<Row, 1>({row_at(i)}, prefetch, tokens, 0, args.num_tokens);
  }
  prefetch.lines.Finish();
}

void FillMatMuls(bool prefetches, KernelTable& table) {
  const auto fill = [&]<class Row>(DType dtype) {
    const auto id = static_cast<uint32_t>(dtype);
    table.matmul_by_type[id] =
        prefetches ? FloatMatMul<Row, true> : FloatMatMul<Row, false>;
    if (!prefetches) table.call_bytes_by_type[id] = kNoPrefetchCallBytes;
    table.dot_rows_by_type[id] = FloatDotRows<Row>;
  };
  fill.template operator()<F32Row>(DType::kF32);
  fill.template operator()<F16Row>(DType::kF16);
  fill.template operator()<BF16Row>(DType::kBF16);
}

}  // namespace thermocline::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace thermocline::kernels {

void FillFloatMatMuls(Isa isa, bool is_amd, KernelTable& table) {
  TC_CALL_FOR_ISA(isa, FillMatMuls, !is_amd, table)
}

}  // namespace thermocline::kernels
#endif
