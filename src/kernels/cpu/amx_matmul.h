// Products with many tokens in AMX tiles.
#ifndef THERMOCLINE_KERNELS_CPU_AMX_MATMUL_H_
#define THERMOCLINE_KERNELS_CPU_AMX_MATMUL_H_

#include "kernels/kernels.h"

namespace thermocline::kernels {

// Sets table.batch to products of Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q4_K Q5_K Q6_K in
// bf16: weights and inputs are rounded to it (2^-9 relative), sums are f32.
// (Tiles of int8 are faster below 22 tokens (Q4_0, Q4_K) to 32 (Q8_0, Q6_K),
// but a prompt's tail has the form of the rest.)
// And table.float_batch to products of F16 and BF16: inputs are rounded to the
// sum of two of bf16 (2^-18), weights are exact.
// The functions set need a CPU that has Isa::kAmx; filling the table does not.
void FillAmxMatMuls(KernelTable& table);

}  // namespace thermocline::kernels

#endif  // THERMOCLINE_KERNELS_CPU_AMX_MATMUL_H_
