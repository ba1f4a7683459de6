// Products of F32, F16 and BF16 weights with f32 activations.
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
