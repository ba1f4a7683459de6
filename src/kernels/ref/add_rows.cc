#include <algorithm>
#include <span>

#include "kernels/ref/ref.h"
#include "tensor/codec.h"

namespace thermocline::kernels::ref {
namespace {

// Columns that are summed together: whole blocks of every type.
constexpr size_t kChunk = 256;

template <DType kType>
void AddRows(const AddRowsArgs& args) {
  for (size_t first = 0; first < args.n; first += kChunk) {
    const size_t count = std::min(kChunk, args.n - first);
    float* out = args.out + first;
    double sums[kChunk];
    std::copy_n(out, count, sums);
    for (size_t i = 0; i < args.num_rows; ++i) {
      const size_t id = args.ids == nullptr ? i : args.ids[i];
      float row[kChunk];
      DequantizeRow(kType,
                    args.rows + id * args.row_bytes + BytesOf(kType, first),
                    std::span(row).first(count));
      for (size_t c = 0; c < count; ++c) {
        sums[c] += static_cast<double>(args.coefs[i]) * row[c];
      }
    }
    std::transform(sums, sums + count, out,
                   [](double sum) { return static_cast<float>(sum); });
  }
}

}  // namespace

AddRowsFn AddRowsFor(DType row_dtype) {
  switch (row_dtype) {
    case DType::kF32:
      return AddRows<DType::kF32>;
    case DType::kF16:
      return AddRows<DType::kF16>;
    case DType::kBF16:
      return AddRows<DType::kBF16>;
    case DType::kQ8_0:
      return AddRows<DType::kQ8_0>;
    case DType::kQ4_0:
      return AddRows<DType::kQ4_0>;
    case DType::kQ4_1:
      return AddRows<DType::kQ4_1>;
    case DType::kQ5_0:
      return AddRows<DType::kQ5_0>;
    case DType::kQ5_1:
      return AddRows<DType::kQ5_1>;
    case DType::kQ4_K:
      return AddRows<DType::kQ4_K>;
    case DType::kQ5_K:
      return AddRows<DType::kQ5_K>;
    case DType::kQ6_K:
      return AddRows<DType::kQ6_K>;
    default:
      return nullptr;
  }
}

}  // namespace thermocline::kernels::ref
