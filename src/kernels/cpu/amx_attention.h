// Attention of many queries over keys and values in F16, in AMX tiles.
#ifndef THERMOCLINE_KERNELS_CPU_AMX_ATTENTION_H_
#define THERMOCLINE_KERNELS_CPU_AMX_ATTENTION_H_

#include "kernels/kernels.h"

namespace thermocline::kernels {

// Sets table.large_batch_attention. Keys and values that are both F16, k_width
// and v_width % 32 == 0, are multiplied in tiles: they exactly, queries and
// weights rounded to 16 bits, the product of the lower halves of both left out
// (2^-15 relative, at most); sums are f32. A call with sums that are not finite
// is computed as floats, and so are all others, but for those in Q8_0 in groups
// (int8_attention.h). The function set needs a CPU that has Isa::kAmx; filling
// the table does not.
void FillAmxAttention(KernelTable& table);

}  // namespace thermocline::kernels

#endif  // THERMOCLINE_KERNELS_CPU_AMX_ATTENTION_H_
