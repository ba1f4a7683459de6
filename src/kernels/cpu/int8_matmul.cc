#include "kernels/cpu/int8_matmul.h"

#include "kernels/cpu/amx_matmul.h"

namespace thermocline::kernels {
namespace {

#if defined(__x86_64__)
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
      FillInt8MatMulsAvx2(table);
      FillInt8MatMulsAvx2K(table);
      break;
    case Isa::kAvx512:
      FillInt8MatMulsAvx512(table);
      break;
    case Isa::kAvx512Vnni:
      FillVnni(is_amd, table);
      break;
    case Isa::kAmx:
      FillVnni(is_amd, table);
      FillAmxMatMuls(table);
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
