// Int8 matrix products for AVX-512 with VNNI.
#include "kernels/cpu/int8_avx512_vnni.h"
#include "kernels/cpu/int8_avx512_k.h"
#include "kernels/cpu/int8_matmul.h"

namespace thermocline::kernels {
namespace {

// For streams: rows one after another, each with what is prefetched spread over
// its work, since many requests at once hold up what is behind them. The input
// stays in registers: loaded anew for each row it would compete with them.
// Listed rows, whose lines are not read ahead by the hardware, gain nothing.
template <class Format>
struct Spread : Format {
  template <size_t kRows>
  struct Group : RowSums<__m512, kRows> {
    using RowSums<__m512, kRows>::RowSums;

    template <class PrefetchRows>
    [[gnu::always_inline]] void Step(const std::byte* const (&rows)[kRows],
                                     size_t offset, const StepActivations& x,
                                     const PrefetchRows& prefetch) {
      StepActivations input = x;
      for (__m512i& q : input.q) KeepInRegister(q);
      KeepInRegister(input.addend);
      KeepInRegister(input.d);
#pragma clang loop unroll(full)
      for (size_t r = 0; r < kRows; ++r) {
        prefetch.template Share<3>(r, 0);
        StepWeights weights = Format::Unpack(rows[r] + offset);
        for (__m512i& q : weights.q) KeepInRegister(q);
        prefetch.template Share<3>(r, 1);
        this->sums[r] = Format::Step(weights, input, this->sums[r]);
        KeepInRegister(this->sums[r]);
        prefetch.template Share<3>(r, 2);
      }
    }
  };
};

}  // namespace

void FillInt8MatMulsAvx512Vnni(KernelTable& table) {
  const auto fill = [&]<class Format>(DType dtype) {
    Int8MatMul<Spread<Format>>::FillMatMul(dtype, table);
    Int8MatMul<Format>::FillDotRows(dtype, table);
  };
  ForEachUnsigned<VnniDot>(fill);
  fill.operator()<VnniQ8>(DType::kQ8_0);
}

}  // namespace thermocline::kernels
