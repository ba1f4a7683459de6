// The float kernels written with Highway. Each function fills its entries of
// the table with the code compiled for that ISA, and leaves them alone where
// the ISA has none (kScalar, or another architecture's). Contracts: kernels.h.
#ifndef THERMOCLINE_KERNELS_CPU_FLOAT_KERNELS_H_
#define THERMOCLINE_KERNELS_CPU_FLOAT_KERNELS_H_

#include <string_view>

#include "kernels/kernels.h"

namespace thermocline::kernels {

// And dot_rows, and the types' call_bytes.
void FillFloatMatMuls(Isa isa, bool is_amd, KernelTable& table);
void FillFloatAddRows(Isa isa, KernelTable& table);   // F32, F16, BF16
void FillQuantAddRows(Isa isa, KernelTable& table);   // the other types
void FillFloatSigns(Isa isa, KernelTable& table);     // pack, count_differences
void FillFloatOps(Isa isa, KernelTable& table);       // norms, rope, add, ...
void FillFloatActivate(Isa isa, KernelTable& table);  // activate
void FillFloatAttention(Isa isa, KernelTable& table);
void FillFloatQuantize(Isa isa, KernelTable& table);  // and store_row

// The attention that FillFloatAttention takes for this ISA, which has one.
void FloatAttention(Isa isa, const AttentionArgs& args);

// The name of the Highway target whose code FillFloatOps takes for this ISA,
// told by that code: "AVX2", "AVX3", "NEON"; "" where there is none. For tests.
std::string_view FloatTargetName(Isa isa);

}  // namespace thermocline::kernels

#endif  // THERMOCLINE_KERNELS_CPU_FLOAT_KERNELS_H_
