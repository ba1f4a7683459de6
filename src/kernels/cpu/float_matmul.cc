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

// Asks for elements from i of the next kRows rows, once per cache line. One
// token reads from memory, and the hardware does not follow kRows streams
// across pages: with this it read 0.94 of what plain loads do, without 0.75
// (F16).
template <class Row, size_t kRows>
HWY_INLINE void PrefetchNext(const std::byte* rows, size_t row_bytes,
                             size_t i) {
  const size_t offset = i * Row::kBytesOf32 / 32;
  if (offset % 64 != 0) return;
  // The address may be past the weights, where no pointer may point.
  const auto next = reinterpret_cast<uintptr_t>(rows) + kRows * row_bytes;
  for (size_t r = 0; r < kRows; ++r) {
    __builtin_prefetch(
        reinterpret_cast<const void*>(next + r * row_bytes + offset), 0, 2);
  }
}

// out[t * out_stride + r] = dot(weight row r, x[t]) for kRows rows and kTokens
// tokens. One accumulator per element, lane i taking the terms i, i + kLanes,
// ..: the block size changes which sums run side by side, never a sum.
// is_stream: the rows that follow will be wanted too.
template <class Row, size_t kRows, size_t kTokens>
HWY_INLINE void DotBlock(const std::byte* weights, size_t row_bytes,
                         bool is_stream, const std::byte* x,
                         size_t x_stride_bytes, size_t n, float* out,
                         size_t out_stride) {
  const Floats floats;
  FloatVec sums[kRows][kTokens];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t t = 0; t < kTokens; ++t) sums[r][t] = hn::Zero(floats);
  }
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    if (kTokens == 1 && is_stream) {
      PrefetchNext<Row, kRows>(weights, row_bytes, i);
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
        weights + row_offset * args.row_bytes, args.row_bytes,
        args.num_rows >= kStreamRows, args.x + t * args.x_stride_bytes,
        args.x_stride_bytes, args.n,
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

// The contract of MatMulFn for float rows. Four rows at a time, so that each
// load of x serves four; tokens in chunks whose x stays in the L2 cache while
// all rows pass by.
template <class Row>
void FloatMatMul(const MatMulArgs& args) {
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
