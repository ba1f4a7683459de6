// Attention of many queries over keys and values in F16, in AMX tiles.
#ifndef THERMOCLINE_KERNELS_CPU_AMX_ATTENTION_H_
#define THERMOCLINE_KERNELS_CPU_AMX_ATTENTION_H_

#include <cstddef>

#include "kernels/kernels.h"

namespace thermocline::kernels {

// Sets table.large_batch_attention. Keys and values that are both F16, k_width
// and v_width % 32 == 0, are multiplied in tiles: they exactly, queries and
// weights in 16 bits, the product of the lower halves of both left out (2^-16
// relative); sums are f32. All other calls go to the kernels of AVX-512 with
// VNNI. The function set needs a CPU that has Isa::kAmx; filling the table does
// not.
void FillAmxAttention(KernelTable& table);

}  // namespace thermocline::kernels

#endif  // THERMOCLINE_KERNELS_CPU_AMX_ATTENTION_H_
