// exp over all floats, from Highway's approximation (error about 1 ulp).
#if defined(THERMOCLINE_KERNELS_CPU_FLOAT_MATH_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef THERMOCLINE_KERNELS_CPU_FLOAT_MATH_INL_H_
#undef THERMOCLINE_KERNELS_CPU_FLOAT_MATH_INL_H_
#else
#define THERMOCLINE_KERNELS_CPU_FLOAT_MATH_INL_H_
#endif

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/cpu/float_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thermocline::kernels::HWY_NAMESPACE {

// e^x: 0 below -104, infinity from 88.73 on, NaN for NaN. Highway's Exp is
// finite again from 177.8 on, and 0 for NaN.
HWY_INLINE FloatVec BoundedExp(FloatVec x) {
  const Floats floats;
  const FloatVec bounded = hn::Min(x, hn::Set(floats, 100.0f));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(floats, bounded));
}

}  // namespace thermocline::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // THERMOCLINE_KERNELS_CPU_FLOAT_MATH_INL_H_
