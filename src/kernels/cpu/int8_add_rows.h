// Sums of listed rows of nibbles, with coefficients rounded to eight bits: a
// product of bytes takes two or four rows at once, in half the time of floats,
// and dense down products round their activations as much.
#ifndef THERMOCLINE_KERNELS_CPU_INT8_ADD_ROWS_H_
#define THERMOCLINE_KERNELS_CPU_INT8_ADD_ROWS_H_

#include "kernels/isa.h"
#include "kernels/kernels.h"

namespace thermocline::kernels {

// Sets table.add_rows_by_type of Q4_0 and Q4_K for kAvx2, kAvxVnni,
// kAvx512Vnni and kAmx, and nothing else: of kAvx512, quant_add_rows.cc makes
// floats of nibbles with about as many instructions as bytes would take. The
// functions set need a CPU that has `isa`; filling the table does not.
void FillInt8AddRows(Isa isa, KernelTable& table);

// The parts of it that are compiled with the flags of one ISA each.
void FillInt8AddRowsAvx2(KernelTable& table);
void FillInt8AddRowsAvx512Vnni(KernelTable& table);

}  // namespace thermocline::kernels

#endif  // THERMOCLINE_KERNELS_CPU_INT8_ADD_ROWS_H_
