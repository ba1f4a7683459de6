// Products of block-quantised weights with many tokens (BatchMatMul), one
// native file per instruction set.
#ifndef THERMOCLINE_KERNELS_CPU_TILE_MATMUL_H_
#define THERMOCLINE_KERNELS_CPU_TILE_MATMUL_H_

#include "kernels/isa.h"
#include "kernels/kernels.h"

namespace thermocline::kernels {

// Sets table.batch, with functions for Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q4_K Q5_K Q6_K,
// and nothing else. Does nothing for kScalar and for an ISA of another
// architecture than the one this is built for. The functions set need a CPU
// that has `isa`; filling the table does not.
void FillTileMatMuls(Isa isa, KernelTable& table);

// The parts of FillTileMatMuls; each is compiled with the flags of its ISA.
void FillTileMatMulsAvx2(KernelTable& table);
void FillTileMatMulsAvxVnni(KernelTable& table);
void FillTileMatMulsAvx512(KernelTable& table);
void FillTileMatMulsAvx512Vnni(KernelTable& table);
void FillTileMatMulsNeonDotprod(KernelTable& table);

}  // namespace thermocline::kernels

#endif  // THERMOCLINE_KERNELS_CPU_TILE_MATMUL_H_
