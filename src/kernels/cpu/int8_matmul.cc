#include "kernels/cpu/int8_matmul.h"

namespace thermocline::kernels {
namespace {

#if defined(__x86_64__)
// Zen 3 reads four streams as well on its own, and instructions that prefetch
// them cost 4 (Q4_0, Q4_K) to 7 % (Q8_0) of a token. Intel's CPUs read 1.02
// (Q8_0) to 1.3 times (Q6_K) as fast if asked.
void FillAvx2(bool is_amd, KernelTable& table) {
  FillInt8MatMulsAvx2(!is_amd, table);
  FillInt8MatMulsAvx2K(!is_amd, table);
  if (!is_amd) return;
  for (DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
                      DType::kQ8_0, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K}) {
    table.call_bytes_by_type[static_cast<uint32_t>(dtype)] =
        kNoPrefetchCallBytes;
  }
}

void FillVnni(bool is_amd, KernelTable& table) {
  if (is_amd && HasGfni()) {
    FillInt8MatMulsAmd(table);
  } else {
    FillInt8MatMulsAvx512Vnni(table);
  }
}
#endif

}  // namespace

void FillInt8MatMuls(Isa isa, [[maybe_unused]] bool is_amd,
                     KernelTable& table) {
  switch (isa) {
#if defined(__x86_64__)
    case Isa::kAvx2:
      FillAvx2(is_amd, table);
      break;
    case Isa::kAvxVnni:  // AMD's CPUs that have it prefer AVX-512
      FillInt8MatMulsAvx2K(true, table);
      FillInt8MatMulsAvxVnni(table);
      break;
    case Isa::kAvx512:
      FillInt8MatMulsAvx512(table);
      break;
    case Isa::kAvx512Vnni:
    case Isa::kAmx:
      FillVnni(is_amd, table);
      break;
#elif defined(__aarch64__)
    case Isa::kNeonDotprod:
      FillInt8MatMulsNeonDotprod(table);
      break;
#endif
    default:
      break;
  }
}

}  // namespace thermocline::kernels
