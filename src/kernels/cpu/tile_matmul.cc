#include "kernels/cpu/tile_matmul.h"

namespace thermocline::kernels {

void FillTileMatMuls(Isa isa, KernelTable& table) {
  switch (isa) {
#if defined(__x86_64__)
    case Isa::kAvx2:
      FillTileMatMulsAvx2(table);
      break;
    case Isa::kAvxVnni:
      FillTileMatMulsAvxVnni(table);
      break;
    case Isa::kAvx512:
      FillTileMatMulsAvx512(table);
      break;
    case Isa::kAvx512Vnni:
    case Isa::kAmx:
      FillTileMatMulsAvx512Vnni(table);
      break;
#elif defined(__aarch64__)
    case Isa::kNeonDotprod:
      FillTileMatMulsNeonDotprod(table);
      break;
#endif
    default:
      break;
  }
}

}  // namespace thermocline::kernels
