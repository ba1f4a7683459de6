// Attention over keys and values in F16 in AMX tiles: of many queries, or of
// heads that share what they read.
#ifndef THERMOCLINE_KERNELS_CPU_AMX_ATTENTION_H_
#define THERMOCLINE_KERNELS_CPU_AMX_ATTENTION_H_

#include "kernels/kernels.h"

namespace thermocline::kernels {

// Sets table.attention and table.large_batch_attention. Keys and values that
// are both F16 are multiplied in tiles:
//   - attention(): by the six heads or more of a call, of 64 or 128 elements
//     each in rows that lie one after another;
//   - large_batch_attention(): k_width and v_width % 32 == 0.
// They are multiplied exactly; queries and weights are rounded to 16 bits, and
// large_batch_attention() leaves out the product of the lower halves of both
// (2^-15 relative, at most); sums are f32. A call with sums that are not finite
// is computed as floats, and so are all others, but for those in Q8_0 in groups
// (int8_attention.h). The functions set need a CPU that has Isa::kAmx; filling
// the table does not.
void FillAmxAttention(KernelTable& table);

// The tiles of attention(). False if the call is not for them or its sums are
// not finite: then what it wrote is worthless.
bool AmxGroupedAttention(const AttentionArgs& args);

}  // namespace thermocline::kernels

#endif  // THERMOCLINE_KERNELS_CPU_AMX_ATTENTION_H_
