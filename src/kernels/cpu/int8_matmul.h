// Products of block-quantised weights with int8 activation rows, of a matrix
// and of the rows in a list, one native file per instruction set.
#ifndef THERMOCLINE_KERNELS_CPU_INT8_MATMUL_H_
#define THERMOCLINE_KERNELS_CPU_INT8_MATMUL_H_

#include "kernels/isa.h"
#include "kernels/kernels.h"

namespace thermocline::kernels {

// Sets table.matmul_by_type and table.dot_rows_by_type of Q8_0 Q4_0 Q4_1 Q5_0
// Q5_1 Q4_K Q5_K Q6_K to the functions for `isa`, and where these leave it to
// the CPU to read streams ahead the type's call_bytes, and nothing else; kAmx
// has those of kAvx512Vnni.
// Does nothing for kScalar and for an ISA of another architecture than the one
// this is built for. The functions set need a CPU that has `isa`; filling the
// table does not.
void FillInt8MatMuls(Isa isa, bool is_amd, KernelTable& table);

// The parts of FillInt8MatMuls; each is compiled with the flags of its ISA.
// prefetches_ahead: whether streams are prefetched ahead of their use. AVX2
// leaves K types to FillInt8MatMulsAvx2K; AVX-VNNI has those of AVX2.
void FillInt8MatMulsAvx2(bool prefetches_ahead, KernelTable& table);
void FillInt8MatMulsAvx2K(bool prefetches_ahead, KernelTable& table);
void FillInt8MatMulsAvxVnni(KernelTable& table);
void FillInt8MatMulsAvx512(KernelTable& table);
void FillInt8MatMulsAvx512Vnni(KernelTable& table);
void FillInt8MatMulsAmd(KernelTable& table);  // AVX-512 VNNI, GFNI
void FillInt8MatMulsNeonDotprod(KernelTable& table);

}  // namespace thermocline::kernels

#endif  // THERMOCLINE_KERNELS_CPU_INT8_MATMUL_H_
