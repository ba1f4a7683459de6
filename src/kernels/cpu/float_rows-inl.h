// Rows of F32, F16, BF16 and Q8_0 as vectors of f32.
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
  static constexpr size_t kBytesOf32 = 32 * sizeof(Element);

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
  static constexpr size_t kBytesOf32 = sizeof(BlockQ8_0);

  static HWY_INLINE FloatVec Load(const std::byte* row, size_t idx) {
    const hn::CappedTag<float, 4> four;
    const hn::Rebind<hwy::float16_t, decltype(four)> halves;
    const hn::Rebind<int8_t, Floats> bytes;
    const hn::Rebind<int32_t, Floats> ints;
    const std::byte* block = row + idx / kBlock * sizeof(BlockQ8_0);
    const std::byte* quants = block + offsetof(BlockQ8_0, qs) + idx % kBlock;
    // Four halves at the scale's place become floats: one that filled a vector
    // would take as many steps as the quants.
    const auto scale = hn::PromoteTo(
        four,
        hn::LoadU(halves, reinterpret_cast<const hwy::float16_t*>(block)));
    const auto ints_of_quants = hn::PromoteTo(
        ints, hn::LoadU(bytes, reinterpret_cast<const int8_t*>(quants)));
    return hn::Mul(hn::Set(Floats(), hn::GetLane(scale)),
                   hn::ConvertTo(Floats(), ints_of_quants));
  }
  // Rows are whole blocks and a block is whole vectors: never called with
  // elements to load.
  static HWY_INLINE FloatVec LoadTail(const std::byte*, size_t, size_t) {
    return hn::Zero(Floats());
  }
};

}  // namespace thermocline::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // THERMOCLINE_KERNELS_CPU_FLOAT_ROWS_INL_H_
