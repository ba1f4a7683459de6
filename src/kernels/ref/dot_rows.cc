#include "kernels/ref/ref.h"

namespace thermocline::kernels::ref {
namespace {

// Row by row what the matrix product does.
template <DType kType>
void DotRows(const DotRowsArgs& args) {
  for (size_t i = 0; i < args.num_rows; ++i) {
    MatMulFor(kType)({.weights = args.rows + args.ids[i] * args.row_bytes,
                      .row_bytes = args.row_bytes,
                      .num_rows = 1,
                      .n = args.n,
                      .x = args.x,
                      .x_stride_bytes = args.x_stride_bytes,
                      .num_tokens = args.num_tokens,
                      .out = args.out + i,
                      .out_stride = args.out_stride});
  }
}

}  // namespace

DotRowsFn DotRowsFor(DType weight_dtype) {
  switch (weight_dtype) {
    case DType::kF32:
      return DotRows<DType::kF32>;
    case DType::kF16:
      return DotRows<DType::kF16>;
    case DType::kBF16:
      return DotRows<DType::kBF16>;
    case DType::kQ8_0:
      return DotRows<DType::kQ8_0>;
    case DType::kQ4_0:
      return DotRows<DType::kQ4_0>;
    case DType::kQ4_1:
      return DotRows<DType::kQ4_1>;
    case DType::kQ5_0:
      return DotRows<DType::kQ5_0>;
    case DType::kQ5_1:
      return DotRows<DType::kQ5_1>;
    case DType::kQ4_K:
      return DotRows<DType::kQ4_K>;
    case DType::kQ5_K:
      return DotRows<DType::kQ5_K>;
    case DType::kQ6_K:
      return DotRows<DType::kQ6_K>;
    default:
      return nullptr;
  }
}

}  // namespace thermocline::kernels::ref
