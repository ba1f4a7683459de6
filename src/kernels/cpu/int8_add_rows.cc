#include "kernels/cpu/int8_add_rows.h"

namespace thermocline::kernels {

void FillInt8AddRows(Isa isa, KernelTable& table) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx2 || isa == Isa::kAvxVnni) FillInt8AddRowsAvx2(table);
  if (isa == Isa::kAvx512Vnni || isa == Isa::kAmx) {
    FillInt8AddRowsAvx512Vnni(table);
  }
#else
  static_cast<void>(isa);
  static_cast<void>(table);
#endif
}

}  // namespace thermocline::kernels
