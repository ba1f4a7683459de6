// Rounding of activations to int8 rows, and of rows of the KV cache.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

#include "kernels/activation_row.h"
#include "kernels/cpu/float_kernels.h"
#include "kernels/cpu/float_targets.h"
#include "kernels/ref/ref.h"
#include "tensor/blocks.h"
#include "tensor/float16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/float_quantize.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/float_rows-inl.h"

#if HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace thermocline::kernels::HWY_NAMESPACE {

using Ints = hn::RebindToSigned<Floats>;
using IntVec = hn::Vec<Ints>;
using Bytes = hn::Rebind<int8_t, Floats>;

// max |x| over 32 elements; NaN if there is one: as integers, the bits of
// magnitudes order like the values, with NaN above infinity.
HWY_INLINE float MaxMagnitude(const float* x) {
  IntVec max_bits = hn::Zero(Ints());
  for (size_t i = 0; i < 32; i += kLanes) {
    const FloatVec magnitudes = hn::Abs(hn::LoadU(Floats(), x + i));
    max_bits = hn::Max(max_bits, hn::BitCast(Ints(), magnitudes));
  }
  return hn::GetLane(hn::BitCast(Floats(), hn::MaxOfLanes(Ints(), max_bits)));
}

// One block of an activation row; bit for bit what kernels/ref computes.
HWY_INLINE void QuantizeBlock(const float* x, float* d, int16_t* sum,
                              int8_t* q) {
  const float max = MaxMagnitude(x);
  *d = max / 127.0f;
  if (!std::isfinite(max) || *d == 0) {
    std::memset(sum, 0, 2 * sizeof(*sum));
    std::memset(q, 0, 32);
    return;
  }
  const FloatVec scale = hn::Set(Floats(), *d);
  const IntVec limit = hn::Set(Ints(), 127);
  IntVec sums[2] = {hn::Zero(Ints()), hn::Zero(Ints())};
  for (size_t i = 0; i < 32; i += kLanes) {
    const IntVec rounded =
        hn::NearestInt(hn::Div(hn::LoadU(Floats(), x + i), scale));
    // Only a subnormal and so inexact scale gets beyond the limit.
    const IntVec quants = hn::Max(hn::Min(rounded, limit), hn::Neg(limit));
    sums[i / 16] = hn::Add(sums[i / 16], quants);
    hn::StoreU(hn::DemoteTo(Bytes(), quants), Bytes(), q + i);
  }
  for (int g = 0; g < 2; ++g) {
    sum[g] = static_cast<int16_t>(hn::GetLane(hn::SumOfLanes(Ints(), sums[g])));
  }
}

void QuantizeActivations(const float* x, size_t n, std::byte* out) {
  const ActivationRow row = ActivationRowAt(out, n);
  for (size_t b = 0; b < n / 32; ++b) {
    QuantizeBlock(x + 32 * b, row.d + b, row.sum + 2 * b, row.q + 32 * b);
  }
}

// NaN for what would round to infinity: see kernels/ref.
void StoreF16(const float* x, size_t n, std::byte* out) {
  const hn::Rebind<hwy::float16_t, Floats> halves;
  const FloatVec first_infinity = hn::Set(Floats(), 65520.0f);
  const FloatVec not_a_number =
      hn::Set(Floats(), std::numeric_limits<float>::quiet_NaN());
  ForEachVector(n, [&](size_t i, size_t count) HWY_ATTR {
    const FloatVec values = LoadN(x + i, count);
    const FloatVec kept = hn::IfThenElse(
        hn::Ge(hn::Abs(values), first_infinity), not_a_number, values);
    HWY_ALIGN hwy::float16_t lanes[kLanes];
    hn::Store(hn::DemoteTo(halves, kept), halves, lanes);
    std::memcpy(out + i * sizeof(lanes[0]), lanes, count * sizeof(lanes[0]));
  });
}

// One block of a Q8_0 row; bit for bit what kernels/ref stores.
HWY_INLINE void StoreQ8Block(const float* x, std::byte* out) {
  // Outside, scales overflow or have no reciprocal: rare, so not here.
  constexpr float kSmallest = 1e-30f;
  constexpr float kLargest = 127.0f * 65504.0f;
  const float max = MaxMagnitude(x);
  if (!(max >= kSmallest && max <= kLargest)) {
    ref::StoreRow(DType::kQ8_0, x, kBlock, out);
    return;
  }
  const float d = max / 127.0f;
  const uint16_t scale = F32ToF16(d);
  std::memcpy(out + offsetof(BlockQ8_0, d), &scale, sizeof(scale));
  auto* quants = reinterpret_cast<int8_t*>(out + offsetof(BlockQ8_0, qs));
  const FloatVec inverse = hn::Set(Floats(), 1.0f / d);
  const FloatVec limit = hn::Set(Floats(), 127.0f);
  const FloatVec half = hn::Set(Floats(), 0.5f);
  const FloatVec one = hn::Set(Floats(), 1.0f);
  for (size_t i = 0; i < kBlock; i += kLanes) {
    const FloatVec scaled = hn::Mul(hn::LoadU(Floats(), x + i), inverse);
    const FloatVec value = hn::Max(hn::Min(scaled, limit), hn::Neg(limit));
    // Ties go away from zero.
    const FloatVec whole = hn::Trunc(value);
    const FloatVec step = hn::IfThenElseZero(
        hn::Ge(hn::Abs(hn::Sub(value, whole)), half), hn::CopySign(one, value));
    hn::StoreU(hn::DemoteTo(Bytes(), hn::NearestInt(hn::Add(whole, step))),
               Bytes(), quants + i);
  }
}

void StoreRow(DType dtype, const float* x, size_t n, std::byte* out) {
  switch (dtype) {
    case DType::kF16:
      StoreF16(x, n, out);
      break;
    case DType::kQ8_0:
      for (size_t b = 0; b < n / kBlock; ++b) {
        StoreQ8Block(x + b * kBlock, out + b * sizeof(BlockQ8_0));
      }
      break;
    default:
      ref::StoreRow(dtype, x, n, out);
  }
}

void FillQuantize(KernelTable& table) {
  table.quantize_activations = QuantizeActivations;
  table.store_row = StoreRow;
}

}  // namespace thermocline::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace thermocline::kernels {

void FillFloatQuantize(Isa isa, KernelTable& table) {
  TC_CALL_FOR_ISA(isa, FillQuantize, table)
}

}  // namespace thermocline::kernels
#endif
