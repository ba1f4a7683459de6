// The non-linearities of FFNs.
#include "kernels/cpu/float_kernels.h"
#include "kernels/cpu/float_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/float_activate.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/float_math-inl.h"
#include "kernels/cpu/float_rows-inl.h"

#if HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace thermocline::kernels::HWY_NAMESPACE {

// x / (1 + exp(-y))
HWY_INLINE FloatVec Logistic(FloatVec x, FloatVec y) {
  const FloatVec one = hn::Set(Floats(), 1.0f);
  return hn::Div(x, hn::Add(one, BoundedExp(hn::Neg(y))));
}

struct Silu {
  HWY_INLINE FloatVec operator()(FloatVec x) const { return Logistic(x, x); }
};

// 0.5x(1 + tanh(u)) = x / (1 + exp(-2u))
struct Gelu {
  HWY_INLINE FloatVec operator()(FloatVec x) const {
    const FloatVec cubic = hn::Set(Floats(), 0.044715f);
    const FloatVec twice_sqrt_2_over_pi = hn::Set(Floats(), 1.5957691216f);
    const FloatVec inner = hn::MulAdd(hn::Mul(cubic, x), hn::Mul(x, x), x);
    return Logistic(x, hn::Mul(twice_sqrt_2_over_pi, inner));
  }
};

// x if x >= threshold, else 0. NaN is not below the threshold and stays.
struct ZeroBelow {
  FloatVec threshold;
  HWY_INLINE FloatVec operator()(FloatVec x) const {
    return hn::IfThenZeroElse(hn::Lt(x, threshold), x);
  }
};

struct SquaredRelu {
  HWY_INLINE FloatVec operator()(FloatVec x) const {
    const FloatVec opened = ZeroBelow{hn::Zero(Floats())}(x);
    return hn::Mul(opened, opened);
  }
};

// out = f(gate) * g(up), or f(up) without a gate.
template <class F, class G>
HWY_INLINE void Apply(F f, G g, const float* gate, const float* up, size_t n,
                      float* out) {
  if (gate == nullptr) {
    ForEachVector(n, [&](size_t i, size_t count) HWY_ATTR {
      StoreN(f(LoadN(up + i, count)), out + i, count);
    });
    return;
  }
  ForEachVector(n, [&](size_t i, size_t count) HWY_ATTR {
    const FloatVec factor = g(LoadN(up + i, count));
    StoreN(hn::Mul(f(LoadN(gate + i, count)), factor), out + i, count);
  });
}

struct Identity {
  HWY_INLINE FloatVec operator()(FloatVec x) const { return x; }
};

void Activate(Activation activation, float threshold, const float* gate,
              const float* up, size_t n, float* out) {
  const ZeroBelow relu = {hn::Zero(Floats())};
  switch (activation) {
    case Activation::kSilu:
      return Apply(Silu(), Identity(), gate, up, n, out);
    case Activation::kGelu:
      return Apply(Gelu(), Identity(), gate, up, n, out);
    case Activation::kRelu:
      return Apply(relu, Identity(), gate, up, n, out);
    case Activation::kFatRelu:
      return Apply(ZeroBelow{hn::Set(Floats(), threshold)}, Identity(), gate,
                   up, n, out);
    case Activation::kDRelu:
      return Apply(relu, relu, gate, up, n, out);
    case Activation::kRelu2:
      return Apply(SquaredRelu(), Identity(), gate, up, n, out);
  }
}

void FillActivate(KernelTable& table) { table.activate = Activate; }

}  // namespace thermocline::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace thermocline::kernels {

void FillFloatActivate(Isa isa, KernelTable& table) {
  TC_CALL_FOR_ISA(isa, FillActivate, table)
}

}  // namespace thermocline::kernels
#endif
