// Norms, rotation, addition and the finiteness check.
#include <cmath>

#include "kernels/cpu/float_kernels.h"
#include "kernels/cpu/float_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/float_ops.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/float_rows-inl.h"

#if HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace thermocline::kernels::HWY_NAMESPACE {

// Norms compute in double: sums of thousands of squares keep their digits, and
// so does the difference to a large mean.
using Doubles = hn::ScalableTag<double>;
using DoubleVec = hn::Vec<Doubles>;
using HalfFloats = hn::Rebind<float, Doubles>;  // as many lanes as Doubles
constexpr size_t kDoubleLanes = hn::MaxLanes(Doubles());

// Elements [0, count) of p, then zeros.
HWY_INLINE DoubleVec LoadDoubles(const float* p, size_t count) {
  if (HWY_LIKELY(count == kDoubleLanes)) {
    return hn::PromoteTo(Doubles(), hn::LoadU(HalfFloats(), p));
  }
  HWY_ALIGN float lanes[kDoubleLanes] = {};
  std::memcpy(lanes, p, count * sizeof(float));
  return hn::PromoteTo(Doubles(), hn::Load(HalfFloats(), lanes));
}

HWY_INLINE void StoreDoubles(DoubleVec v, float* p, size_t count) {
  HWY_ALIGN float lanes[kDoubleLanes];
  hn::Store(hn::DemoteTo(HalfFloats(), v), HalfFloats(), lanes);
  std::memcpy(p, lanes, count * sizeof(float));
}

// As ForEachVector, in steps of kDoubleLanes.
template <class Function>
HWY_INLINE void ForEachDoubles(size_t n, Function f) {
  size_t i = 0;
  for (; i + kDoubleLanes <= n; i += kDoubleLanes) f(i, kDoubleLanes);
  if (i < n) f(i, n - i);
}

// sum over i of term(x[i])
template <class Term>
HWY_INLINE double Sum(const float* x, size_t n, Term term) {
  DoubleVec sum = hn::Zero(Doubles());
  ForEachDoubles(n, [&](size_t i, size_t count) HWY_ATTR {
    const DoubleVec terms = term(LoadDoubles(x + i, count));
    sum = hn::Add(sum, hn::IfThenElseZero(hn::FirstN(Doubles(), count), terms));
  });
  return hn::GetLane(hn::SumOfLanes(Doubles(), sum));
}

// 1 / sqrt(sum / n + eps)
DoubleVec InverseRoot(double sum, size_t n, float eps) {
  return hn::Set(Doubles(), 1 / std::sqrt(sum / static_cast<double>(n) + eps));
}

void RmsNorm(const float* x, const float* weight, float eps, size_t n,
             float* out) {
  const double squares =
      Sum(x, n, [](DoubleVec v) HWY_ATTR { return hn::Mul(v, v); });
  const DoubleVec scale = InverseRoot(squares, n, eps);
  ForEachDoubles(n, [&](size_t i, size_t count) HWY_ATTR {
    const DoubleVec scaled = hn::Mul(LoadDoubles(x + i, count), scale);
    StoreDoubles(hn::Mul(scaled, LoadDoubles(weight + i, count)), out + i,
                 count);
  });
}

void LayerNorm(const float* x, const float* weight, const float* bias,
               float eps, size_t n, float* out) {
  const double total = Sum(x, n, [](DoubleVec v) HWY_ATTR { return v; });
  const DoubleVec mean = hn::Set(Doubles(), total / static_cast<double>(n));
  const double squares = Sum(x, n, [mean](DoubleVec v) HWY_ATTR {
    const DoubleVec deviation = hn::Sub(v, mean);
    return hn::Mul(deviation, deviation);
  });
  const DoubleVec scale = InverseRoot(squares, n, eps);
  ForEachDoubles(n, [&](size_t i, size_t count) HWY_ATTR {
    const DoubleVec deviation = hn::Sub(LoadDoubles(x + i, count), mean);
    const DoubleVec shift =
        bias == nullptr ? hn::Zero(Doubles()) : LoadDoubles(bias + i, count);
    StoreDoubles(hn::MulAdd(hn::Mul(deviation, scale),
                            LoadDoubles(weight + i, count), shift),
                 out + i, count);
  });
}

// Rotates the pairs (a, b) by the angles of `cos` and `sin`.
HWY_INLINE void Rotate(FloatVec cos, FloatVec sin, FloatVec& a, FloatVec& b) {
  const FloatVec rotated = hn::MulSub(a, cos, hn::Mul(b, sin));
  b = hn::MulAdd(a, sin, hn::Mul(b, cos));
  a = rotated;
}

// Pairs (2i, 2i + 1) of one head.
void RopeNorm(float* head, const float* cos, const float* sin,
              size_t num_pairs) {
  ForEachVector(num_pairs, [&](size_t i, size_t count) HWY_ATTR {
    HWY_ALIGN float pairs[2 * kLanes] = {};
    std::memcpy(pairs, head + 2 * i, 2 * count * sizeof(float));
    FloatVec a, b;
    hn::LoadInterleaved2(Floats(), pairs, a, b);
    Rotate(LoadN(cos + i, count), LoadN(sin + i, count), a, b);
    hn::StoreInterleaved2(a, b, Floats(), pairs);
    std::memcpy(head + 2 * i, pairs, 2 * count * sizeof(float));
  });
}

// Pairs (i, i + num_pairs) of one head.
void RopeNeox(float* head, const float* cos, const float* sin,
              size_t num_pairs) {
  ForEachVector(num_pairs, [&](size_t i, size_t count) HWY_ATTR {
    FloatVec a = LoadN(head + i, count);
    FloatVec b = LoadN(head + num_pairs + i, count);
    Rotate(LoadN(cos + i, count), LoadN(sin + i, count), a, b);
    StoreN(a, head + i, count);
    StoreN(b, head + num_pairs + i, count);
  });
}

void Rope(float* heads, size_t num_heads, size_t head_width, RopeKind kind,
          const float* cos, const float* sin, size_t num_pairs) {
  if (kind == RopeKind::kNone) return;
  for (size_t h = 0; h < num_heads; ++h) {
    float* head = heads + h * head_width;
    if (kind == RopeKind::kNeox) {
      RopeNeox(head, cos, sin, num_pairs);
    } else {
      RopeNorm(head, cos, sin, num_pairs);
    }
  }
}

void Add(const float* x, size_t n, float* y) {
  ForEachVector(n, [&](size_t i, size_t count) HWY_ATTR {
    StoreN(hn::Add(LoadN(x + i, count), LoadN(y + i, count)), y + i, count);
  });
}

bool AllFinite(const float* x, size_t n) {
  const hn::RebindToSigned<Floats> ints;
  auto max_bits = hn::Zero(ints);
  ForEachVector(n, [&](size_t i, size_t count) HWY_ATTR {
    const auto abs_bits = hn::BitCast(ints, hn::Abs(LoadN(x + i, count)));
    max_bits = hn::Max(max_bits, abs_bits);
  });
  constexpr int32_t kInfinityBits = 0x7f800000;
  return hn::GetLane(hn::MaxOfLanes(ints, max_bits)) < kInfinityBits;
}

void FillOps(KernelTable& table) {
  table.rms_norm = RmsNorm;
  table.layer_norm = LayerNorm;
  table.rope = Rope;
  table.add = Add;
  table.all_finite = AllFinite;
}

void SetTargetName(std::string_view& name) {
  name = hwy::TargetName(HWY_TARGET);
}

}  // namespace thermocline::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace thermocline::kernels {

void FillFloatOps(Isa isa,
                  KernelTable& table){TC_CALL_FOR_ISA(isa, FillOps, table)}

std::string_view FloatTargetName(Isa isa) {
  std::string_view name;
  TC_CALL_FOR_ISA(isa, SetTargetName, name)
  return name;
}

}  // namespace thermocline::kernels
#endif
