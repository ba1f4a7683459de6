// Products of F32, F16 and BF16 weights with f32 activations.
#include <algorithm>
#include <cstddef>
#include <cstdint>

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

// How far ahead of its use a weight is asked for in its stream: into the second
// level of the cache, then into the first.
constexpr size_t kFarBytes = 2048;
constexpr size_t kNearBytes = 512;

// Where the bytes lie that a stream reads next.
struct Ahead {
  size_t bytes;           // behind the one in use, 0: not asked for
  size_t left;            // of the stream
  size_t bytes_past_end;  // as `bytes`, once the stream ends before that
};

// Asks for what follows element i of each of kRows rows, once per cache line.
template <class Row, size_t kRows>
HWY_INLINE void Prefetch(const std::byte* rows, size_t row_bytes, size_t i,
                         const Ahead& ahead) {
  const size_t offset = i * Row::kBytesOf32 / 32;
  if (offset % 64 != 0) return;
  // The address may be past the weights, where no pointer may point.
  const auto begin =
      reinterpret_cast<uintptr_t>(rows) + offset +
      (offset + ahead.bytes < ahead.left ? ahead.bytes : ahead.bytes_past_end);
  for (size_t r = 0; r < kRows; ++r) {
    __builtin_prefetch(reinterpret_cast<const void*>(begin + r * row_bytes), 0,
                       3);
  }
}

// out[t * out_stride + r] = dot(weight row r, x[t]) for kRows rows and kTokens
// tokens. One accumulator per element, lane i taking the terms i, i + kLanes,
// ..: the block size changes which sums run side by side, never a sum.
template <class Row, size_t kRows, size_t kTokens>
HWY_INLINE void DotBlock(const std::byte* weights, size_t row_bytes,
                         const Ahead& ahead, const std::byte* x,
                         size_t x_stride_bytes, size_t n, float* out,
                         size_t out_stride) {
  const Floats floats;
  FloatVec sums[kRows][kTokens];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t t = 0; t < kTokens; ++t) sums[r][t] = hn::Zero(floats);
  }
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    if (kTokens == 1 && ahead.bytes > 0) {
      Prefetch<Row, kRows>(weights, row_bytes, i, ahead);
    }
    FloatVec x_lanes[kTokens];
    for (size_t t = 0; t < kTokens; ++t) {
      x_lanes[t] = F32Row::Load(x + t * x_stride_bytes, i);
    }
    for (size_t r = 0; r < kRows; ++r) {
      const FloatVec row = Row::Load(weights + r * row_bytes, i);
      for (size_t t = 0; t < kTokens; ++t) {
        sums[r][t] = hn::MulAdd(row, x_lanes[t], sums[r][t]);
      }
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t t = 0; t < kTokens; ++t) {
      if (i < n) {
        sums[r][t] = hn::MulAdd(
            Row::LoadTail(weights + r * row_bytes, i, n - i),
            F32Row::LoadTail(x + t * x_stride_bytes, i, n - i), sums[r][t]);
      }
      out[t * out_stride + r] = hn::GetLane(hn::SumOfLanes(floats, sums[r][t]));
    }
  }
}

// kRows rows from `r` times tokens [t, t_end).
template <class Row, size_t kRows>
HWY_INLINE void DotRows(const MatMulArgs& args, size_t r, size_t t,
                        size_t t_end) {
  const std::byte* weights = args.weights + r * args.row_bytes;
  const auto dot = [&]<size_t kR, size_t kT>(size_t row_offset) HWY_ATTR {
    DotBlock<Row, kR, kT>(
        weights + row_offset * args.row_bytes, args.row_bytes, Ahead{},
        args.x + t * args.x_stride_bytes, args.x_stride_bytes, args.n,
        args.out + t * args.out_stride + r + row_offset, args.out_stride);
  };
  for (; t + 4 <= t_end; t += 4) {
    // 4 x 4 accumulators do not fit the 16 registers of AVX2.
    if constexpr (kRows == 4 && HWY_TARGET == HWY_AVX2) {
      dot.template operator()<2, 4>(0);
      dot.template operator()<2, 4>(2);
    } else {
      dot.template operator()<kRows, 4>(0);
    }
  }
  for (; t + 2 <= t_end; t += 2) dot.template operator()<kRows, 2>(0);
  if (t < t_end) dot.template operator()<kRows, 1>(0);
}

// One token. Four streams, each a quarter of the rows from its first to its
// last: memory delivers more to a few streams than to one, and a stream that
// goes on forever can be asked for ahead of its use.
template <class Row>
void MultiplyOne(const MatMulArgs& args) {
  constexpr size_t kStreams = 4;
  const size_t stream_rows = args.num_rows / kStreams;
  const size_t stream_bytes = stream_rows * args.row_bytes;
  Ahead ahead = {};
  if (args.num_rows >= kStreamRows) {
    // Past the streams' ends the caller's next rows begin, whose first stream
    // is where the last of these ends.
    ahead.bytes = kFarBytes;
    ahead.bytes_past_end = kFarBytes + (kStreams - 1) * stream_bytes;
  }
  for (size_t r = 0; r < stream_rows; ++r) {
    const size_t begin = r * args.row_bytes;
    ahead.left = stream_bytes - begin;
    float dots[kStreams];
    DotBlock<Row, kStreams, 1>(args.weights + begin, stream_bytes, ahead,
                               args.x, args.x_stride_bytes, args.n, dots,
                               kStreams);
    for (size_t s = 0; s < kStreams; ++s) {
      args.out[r + s * stream_rows] = dots[s];
    }
  }
  for (size_t r = kStreams * stream_rows; r < args.num_rows; ++r) {
    DotRows<Row, 1>(args, r, 0, 1);
  }
}

// The contract of MatMulFn for float rows. Four rows at a time, so that each
// load of x serves four; tokens in chunks whose x stays in the L2 cache while
// all rows pass by.
template <class Row>
void FloatMatMul(const MatMulArgs& args) {
  if (args.num_tokens == 1) {
    MultiplyOne<Row>(args);
    return;
  }
  constexpr size_t kChunkBytes = 256 * 1024;
  const size_t x_bytes = std::max<size_t>(args.n, 1) * sizeof(float);
  const size_t chunk = std::max<size_t>(kChunkBytes / x_bytes, 4) / 4 * 4;
  for (size_t t = 0; t < args.num_tokens; t += chunk) {
    const size_t t_end = std::min(t + chunk, args.num_tokens);
    size_t r = 0;
    for (; r + 4 <= args.num_rows; r += 4) DotRows<Row, 4>(args, r, t, t_end);
    for (; r < args.num_rows; ++r) DotRows<Row, 1>(args, r, t, t_end);
  }
}

void FillMatMuls(KernelTable& table) {
  const auto entry = [&table](DType dtype) -> MatMulFn& {
    return table.matmul_by_type[static_cast<uint32_t>(dtype)];
  };
  entry(DType::kF32) = FloatMatMul<F32Row>;
  entry(DType::kF16) = FloatMatMul<F16Row>;
  entry(DType::kBF16) = FloatMatMul<BF16Row>;
}

}  // namespace thermocline::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace thermocline::kernels {

void FillFloatMatMuls(Isa isa, KernelTable& table) {
  TC_CALL_FOR_ISA(isa, FillMatMuls, table)
}

}  // namespace thermocline::kernels
#endif
