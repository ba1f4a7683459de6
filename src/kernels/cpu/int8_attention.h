// Attention over keys and values in Q8_0 with products of bytes and words.
#ifndef THERMOCLINE_KERNELS_CPU_INT8_ATTENTION_H_
#define THERMOCLINE_KERNELS_CPU_INT8_ATTENTION_H_

#include "kernels/isa.h"
#include "kernels/kernels.h"

namespace thermocline::kernels {

// Sets table.attention for kAvx512Vnni and kAmx, and nothing else: calls with
// several heads whose keys and values are both Q8_0, in rows of a multiple of
// kInt8AttentionStep elements, go to the kernel below, all others to the float
// one of the ISA. The function set needs a CPU that has `isa`; filling the
// table does not.
void FillInt8Attention(Isa isa, KernelTable& table);

inline constexpr size_t kInt8AttentionStep = 64;

// A KernelTable::attention for those calls, with the rounding that
// AttentionArgs tells of; compiled for AVX-512 with VNNI.
void Int8AttentionAvx512Vnni(const AttentionArgs& args);

}  // namespace thermocline::kernels

#endif  // THERMOCLINE_KERNELS_CPU_INT8_ATTENTION_H_
