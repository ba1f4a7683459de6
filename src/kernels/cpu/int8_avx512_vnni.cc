// Int8 matrix products for AVX-512 with VNNI.
#include "kernels/cpu/int8_avx512_vnni.h"
#include "kernels/cpu/int8_avx512_k.h"
#include "kernels/cpu/int8_matmul.h"

namespace thermocline::kernels {

void FillInt8MatMulsAvx512Vnni(KernelTable& table) {
  FillUnsigned<VnniDot>(table);
  Int8MatMul<VnniQ8>::Fill(DType::kQ8_0, table);
}

}  // namespace thermocline::kernels
