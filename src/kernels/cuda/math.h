// exp and tanh from multiplications and additions that every GPU and the host
// round alike, so that they have the same bits everywhere. CUDA's own differ
// from the C library's. For kernel files alone.
#ifndef THERMOCLINE_KERNELS_CUDA_MATH_H_
#define THERMOCLINE_KERNELS_CUDA_MATH_H_

#include <cstdint>

#include "kernels/cuda/cuda.h"
#include "tensor/op_kinds.h"

namespace thermocline::cuda {

// e^x within 1.5 units in the last place, subnormal results within one more; 0
// below -104, infinity from 88.73 on, NaN for NaN.
__device__ inline float Exp(float x) {
  // Comparisons that NaN passes unchanged.
  if (x > 89.0f) x = 89.0f;
  if (x < -104.0f) x = -104.0f;
  // x = k log(2) + r with |r| <= log(2) / 2; log(2) in two parts, the first of
  // which times k is exact.
  const int k = __float2int_rn(__fmul_rn(x, 1.44269504f));
  const float whole = __int2float_rn(k);
  float r = __fmaf_rn(whole, -0x1.62e400p-1f, x);
  r = __fmaf_rn(whole, -0x1.7f7d1cp-20f, r);
  // (e^r - 1 - r) / r^2, interpolated at Chebyshev's nodes.
  float p = 1.98909809e-4f;
  p = __fmaf_rn(p, r, 1.39336416e-3f);
  p = __fmaf_rn(p, r, 8.33331048e-3f);
  p = __fmaf_rn(p, r, 4.16664667e-2f);
  p = __fmaf_rn(p, r, 1.66666672e-1f);
  p = __fmaf_rn(p, r, 0.5f);
  p = __fmaf_rn(__fmul_rn(p, r), r, r);
  // 2^k in two factors: it may be subnormal, or beyond the largest.
  const int half = k >> 1;
  const float low = __int_as_float((half + 127) << 23);
  const float high = __int_as_float((k - half + 127) << 23);
  return __fmul_rn(__fmul_rn(__fadd_rn(p, 1.0f), low), high);
}

// Within 2.5 units in the last place; NaN for NaN.
__device__ inline float Tanh(float x) {
  const float size = fabsf(x);
  if (size < 0.625f) {
    const float square = __fmul_rn(x, x);
    float p = 2.26950157e-3f;
    p = __fmaf_rn(p, square, -8.32318701e-3f);
    p = __fmaf_rn(p, square, 2.17625033e-2f);
    p = __fmaf_rn(p, square, -5.39584607e-2f);
    p = __fmaf_rn(p, square, 1.33332998e-1f);
    p = __fmaf_rn(p, square, -3.33333343e-1f);
    return __fmaf_rn(__fmul_rn(p, square), x, x);
  }
  const float rest = __fdiv_rn(2.0f, __fadd_rn(Exp(__fmul_rn(2.0f, size)), 1));
  const float value = __fadd_rn(1.0f, -rest);
  return x < 0.0f ? -value : value;
}

// f of tensor/op_kinds.h; of kDRelu the gate's half. NaN stays NaN.
__device__ inline float Activated(Activation activation, float threshold,
                                  float x) {
  switch (activation) {
    case Activation::kSilu:
      return __fdiv_rn(x, __fadd_rn(1.0f, Exp(-x)));
    case Activation::kGelu: {
      // (1 + tanh u) / 2 = 1 / (1 + e^-2u), which keeps its digits where that
      // is small.
      const float cube = __fmul_rn(__fmul_rn(x, x), x);
      const float u = __fmul_rn(0.797884561f, __fmaf_rn(0.044715f, cube, x));
      return __fdiv_rn(x, __fadd_rn(1.0f, Exp(__fmul_rn(-2.0f, u))));
    }
    case Activation::kFatRelu:
      return x < threshold ? 0.0f : x;
    case Activation::kRelu:
    case Activation::kDRelu:
      return x < 0.0f ? 0.0f : x;
    case Activation::kRelu2:
      return x < 0.0f ? 0.0f : __fmul_rn(x, x);
  }
  return x;
}

}  // namespace thermocline::cuda

#endif  // THERMOCLINE_KERNELS_CUDA_MATH_H_
