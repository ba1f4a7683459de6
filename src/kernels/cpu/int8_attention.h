// Attention over keys and values in Q8_0 with products of bytes.
#ifndef THERMOCLINE_KERNELS_CPU_INT8_ATTENTION_H_
#define THERMOCLINE_KERNELS_CPU_INT8_ATTENTION_H_

#include "kernels/isa.h"
#include "kernels/kernels.h"

namespace thermocline::kernels {

// Sets table.attention for kAvx512Vnni; for kAmx what amx_attention.h tells of.
// The functions set need a CPU that has `isa`; filling the table does not.
void FillInt8Attention(Isa isa, KernelTable& table);

// Calls with groups of positions go to the kernel below, all others to the one
// in floats.
void Avx512VnniAttention(const AttentionArgs& args);

// A KernelTable::attention for KvOrder::kGroups, with the rounding that
// AttentionArgs tells of; scales are not negative. Compiled for AVX-512 with
// VNNI.
void Int8AttentionAvx512Vnni(const AttentionArgs& args);

}  // namespace thermocline::kernels

#endif  // THERMOCLINE_KERNELS_CPU_INT8_ATTENTION_H_
