#include "kernels/cpu/int8_attention.h"

#include <utility>

#include "kernels/cpu/float_kernels.h"

namespace thermocline::kernels {
#if defined(__x86_64__)
namespace {

void ForEachPiece(AttentionArgs args, void (*attend)(const AttentionArgs&)) {
  const size_t num_pieces = std::exchange(args.num_pieces, 1);
  for (size_t i = 0; i < num_pieces; ++i) {
    attend(args);
    args.k += kAttentionPiece * args.k_stride_bytes;
    args.v += kAttentionPiece * args.v_stride_bytes;
    args.out += args.out_piece_stride;
  }
}

// Types, widths and heads decide, and nothing that differs between two calls
// for the same cache: a token's bits must not depend on how the work was cut. A
// head with keys of its own is read 1.05 to 1.15 times as fast in floats (Zen
// 4).
void Avx512VnniAttention(const AttentionArgs& args) {
  if (args.num_heads > 1 && args.k_dtype == DType::kQ8_0 &&
      args.v_dtype == DType::kQ8_0 && args.k_width % kInt8AttentionStep == 0 &&
      args.v_width % kInt8AttentionStep == 0) {
    ForEachPiece(args, Int8AttentionAvx512Vnni);
  } else {
    FloatAttention(Isa::kAvx512Vnni, args);
  }
}

}  // namespace
#endif

void FillInt8Attention(Isa isa, KernelTable& table) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512Vnni || isa == Isa::kAmx) {
    table.attention = Avx512VnniAttention;
  }
#else
  static_cast<void>(isa);
  static_cast<void>(table);
#endif
}

}  // namespace thermocline::kernels
