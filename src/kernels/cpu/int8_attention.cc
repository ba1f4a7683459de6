#include "kernels/cpu/int8_attention.h"

#include "kernels/cpu/amx_attention.h"
#include "kernels/cpu/float_kernels.h"

namespace thermocline::kernels {
#if defined(__x86_64__)
void Avx512VnniAttention(const AttentionArgs& args) {
  if (args.kv_order == KvOrder::kGroups) {
    Int8AttentionAvx512Vnni(args);
  } else {
    FloatAttention(Isa::kAvx512Vnni, args);
  }
}
#endif

void FillInt8Attention(Isa isa, KernelTable& table) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512Vnni) table.attention = Avx512VnniAttention;
  if (isa == Isa::kAmx) FillAmxAttention(table);
#else
  static_cast<void>(isa);
  static_cast<void>(table);
#endif
}

}  // namespace thermocline::kernels
