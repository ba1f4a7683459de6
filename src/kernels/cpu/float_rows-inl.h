// Rows of F32, F16, BF16 and Q8_0 as vectors of f32, and the product of a
// matrix of such rows with f32 vectors.
#if defined(THERMOCLINE_KERNELS_CPU_FLOAT_ROWS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef THERMOCLINE_KERNELS_CPU_FLOAT_ROWS_INL_H_
#undef THERMOCLINE_KERNELS_CPU_FLOAT_ROWS_INL_H_
#else
#define THERMOCLINE_KERNELS_CPU_FLOAT_ROWS_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "kernels/kernels.h"
#include "tensor/blocks.h"

HWY_BEFORE_NAMESPACE();
namespace thermocline::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using FloatVec = hn::Vec<Floats>;

// Vectors have a fixed size on every target in float_targets.h.
constexpr size_t kLanes = hn::MaxLanes(Floats());

// Elements [0, count) of p, then zeros.
HWY_INLINE FloatVec LoadN(const float* p, size_t count) {
  if (HWY_LIKELY(count == kLanes)) return hn::LoadU(Floats(), p);
  HWY_ALIGN float lanes[kLanes] = {};
  std::memcpy(lanes, p, count * sizeof(float));
  return hn::Load(Floats(), lanes);
}

HWY_INLINE void StoreN(FloatVec v, float* p, size_t count) {
  if (HWY_LIKELY(count == kLanes)) {
    hn::StoreU(v, Floats(), p);
    return;
  }
  HWY_ALIGN float lanes[kLanes];
  hn::Store(v, Floats(), lanes);
  std::memcpy(p, lanes, count * sizeof(float));
}

// Calls f(i, count) for i = 0, kLanes, ..: count = kLanes, less at the end.
template <class Function>
HWY_INLINE void ForEachVector(size_t n, Function f) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) f(i, kLanes);
  if (i < n) f(i, n - i);
}

// Row readers. Load: elements idx .. idx + kLanes - 1 of a row, idx a multiple
// of kLanes. LoadTail: the `count` < kLanes last ones, then zeros.

// Elements that are stored as a 16- or 32-bit float.
template <class Element>
struct FloatRow {
  using Tag = hn::Rebind<Element, Floats>;
  static constexpr size_t kElemBytes = sizeof(Element);

  static HWY_INLINE FloatVec Load(const std::byte* row, size_t idx) {
    return ToFloat(
        hn::LoadU(Tag(), reinterpret_cast<const Element*>(row) + idx));
  }
  static HWY_INLINE FloatVec LoadTail(const std::byte* row, size_t idx,
                                      size_t count) {
    HWY_ALIGN Element lanes[kLanes];
    std::memset(lanes, 0, sizeof(lanes));
    std::memcpy(lanes, row + idx * sizeof(Element), count * sizeof(Element));
    return ToFloat(hn::Load(Tag(), lanes));
  }

 private:
  static HWY_INLINE FloatVec ToFloat(hn::Vec<Tag> v) {
    if constexpr (sizeof(Element) == sizeof(float)) {
      return v;
    } else {
      return hn::PromoteTo(Floats(), v);
    }
  }
};
using F32Row = FloatRow<float>;
using F16Row = FloatRow<hwy::float16_t>;
using BF16Row = FloatRow<hwy::bfloat16_t>;

struct Q8Row {
  static HWY_INLINE FloatVec Load(const std::byte* row, size_t idx) {
    const std::byte* block = row + idx / kBlock * sizeof(BlockQ8_0);
    const hn::Rebind<hwy::float16_t, Floats> halves;
    const hn::Rebind<uint16_t, Floats> words;
    const hn::Rebind<int8_t, Floats> bytes;
    const hn::Rebind<int32_t, Floats> ints;
    uint16_t d;
    std::memcpy(&d, block, sizeof(d));
    const FloatVec scale =
        hn::PromoteTo(Floats(), hn::BitCast(halves, hn::Set(words, d)));
    const auto quants =
        hn::LoadU(bytes, reinterpret_cast<const int8_t*>(block) +
                             offsetof(BlockQ8_0, qs) + idx % kBlock);
    return hn::Mul(scale, hn::ConvertTo(Floats(), hn::PromoteTo(ints, quants)));
  }
  // Rows are whole blocks and a block is whole vectors: never called with
  // elements to load.
  static HWY_INLINE FloatVec LoadTail(const std::byte*, size_t, size_t) {
    return hn::Zero(Floats());
  }
};

// Asks for elements from i of the next kRows rows, once per cache line. One
// token reads from memory, and the hardware does not follow kRows streams
// across pages: with this it read 0.94 of what plain loads do, without 0.75
// (F16).
template <class Row, size_t kRows>
HWY_INLINE void PrefetchNext(const std::byte* rows, size_t row_bytes,
                             size_t i) {
  const size_t offset = i * Row::kElemBytes;
  if (offset % 64 != 0) return;
  // The address may be past the weights, where no pointer may point.
  const auto next = reinterpret_cast<uintptr_t>(rows) + kRows * row_bytes;
  for (size_t r = 0; r < kRows; ++r) {
    __builtin_prefetch(
        reinterpret_cast<const void*>(next + r * row_bytes + offset), 0, 2);
  }
}

// Fewer rows than this come from a sparse walk: nobody may want the next ones.
constexpr size_t kMinStreamRows = 16;

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
        args.num_rows >= kMinStreamRows, args.x + t * args.x_stride_bytes,
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

}  // namespace thermocline::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // THERMOCLINE_KERNELS_CPU_FLOAT_ROWS_INL_H_
