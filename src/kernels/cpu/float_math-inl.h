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

// e^min(x, 88), 0 below -104, NaN for NaN: Highway's Exp is wrong from 104 up,
// and 0 for NaN. At 88 the result is 1.7e38, half of what a float can hold.
HWY_INLINE FloatVec BoundedExp(FloatVec x) {
  const Floats floats;
  const FloatVec bounded = hn::Min(x, hn::Set(floats, 88.0f));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(floats, bounded));
}

}  // namespace thermocline::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // THERMOCLINE_KERNELS_CPU_FLOAT_MATH_INL_H_
