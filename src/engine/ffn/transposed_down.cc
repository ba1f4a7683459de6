#include "engine/ffn/transposed_down.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/math.h"
#include "tensor/dtype.h"

namespace thermocline::engine {
namespace {

// A slice of a row is at least this long: two cache lines of 16-bit floats.
constexpr size_t kMinColumns = 64;
// What a slice of the matrix may take of a core's own cache.
constexpr size_t kCacheBytes = 512 << 10;

// Whole blocks, of a size that changes no bit of the result. One token reads
// long slices, a few per thread; a batch slices that fit the cache.
size_t ColumnsPerPiece(const RowSums& sums, int num_threads,
                       size_t num_tokens) {
  const size_t width = sums.matrix.shape.ne[0];
  size_t columns = CeilDiv<size_t>(width, 2 * static_cast<size_t>(num_threads));
  if (num_tokens > 1) {
    const size_t column_bytes =
        std::max<size_t>(sums.matrix.num_bytes() / width, 1);
    columns = std::min(columns, kCacheBytes / column_bytes);
  }
  const size_t block = InfoOf(sums.matrix.dtype).block_elems;
  return RoundUp(std::max(columns, kMinColumns), std::max(block, kMinColumns));
}

void SumPiece(const compute::Compute& compute, const RowSums& sums,
              size_t token_idx, size_t first_column, size_t num_columns) {
  const TensorView& matrix = sums.matrix;
  float* out = sums.out.row(token_idx) + first_column;
  std::fill_n(out, num_columns, 0.0f);
  compute.kernels->add_rows(matrix.dtype)(
      {.rows = matrix.data + BytesOf(matrix.dtype, first_column),
       .row_bytes = matrix.row_stride(),
       .ids = nullptr,
       .coefs = sums.coefs.row(token_idx),
       .num_rows = matrix.shape.num_rows(),
       .n = num_columns,
       .out = out});
  if (!sums.bias) return;
  const float* bias = reinterpret_cast<const float*>(sums.bias.data);
  compute.kernels->add(bias + first_column, num_columns, out);
}

// Columns that are transposed at once: whole blocks of every type.
constexpr size_t kBlockColumns = 256;
constexpr size_t kFloatColumns = 64;
// Neurons that are decoded at once: a block of what they become.
constexpr size_t kNeurons = 32;

DType TransposedType(DType dtype) {
  if (!IsFloat(dtype)) return DType::kQ8_0;
  return dtype == DType::kF16 ? DType::kF16 : DType::kF32;
}

size_t ColumnsOf(DType dtype) {
  return IsFloat(dtype) ? kFloatColumns : kBlockColumns;
}

using Rows32 = float[kNeurons][kBlockColumns];
using Columns32 = float[kBlockColumns][kNeurons];

// Elements [first, first + count) of rows [row, row + num_rows) in floats: each
// as the sum of itself alone, for which the kernels are fast. Alone in its
// group (AddRowsArgs) a row's scales are not rounded to eight bits.
void Decode(const compute::Compute& compute, const TensorView& matrix,
            size_t row, size_t num_rows, size_t first, size_t count,
            Rows32& out) {
  constexpr float kOnce = 1.0f;
  for (size_t i = 0; i < num_rows; ++i) {
    std::fill_n(out[i], count, 0.0f);
    compute.kernels->add_rows(matrix.dtype)(
        {.rows = matrix.row(row + i) + BytesOf(matrix.dtype, first),
         .row_bytes = matrix.row_stride(),
         .ids = nullptr,
         .coefs = &kOnce,
         .num_rows = 1,
         .n = count,
         .out = out[i]});
  }
}

// Four by four at a time: up to three columns behind the last are transposed
// too.
void Transpose(const Rows32& rows, size_t count, Columns32& columns) {
  using Four = float __attribute__((ext_vector_type(4)));
  const auto load = [](const float* from) {
    Four four;
    std::memcpy(&four, from, sizeof(four));
    return four;
  };
  for (size_t c = 0; c < count; c += 4) {
    for (size_t i = 0; i < kNeurons; i += 4) {
      const Four a = load(&rows[i][c]), b = load(&rows[i + 1][c]);
      const Four d = load(&rows[i + 2][c]), e = load(&rows[i + 3][c]);
      const Four ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
      const Four ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
      const Four de_low = __builtin_shufflevector(d, e, 0, 4, 1, 5);
      const Four de_high = __builtin_shufflevector(d, e, 2, 6, 3, 7);
      const Four transposed[] = {
          __builtin_shufflevector(ab_low, de_low, 0, 1, 4, 5),
          __builtin_shufflevector(ab_low, de_low, 2, 3, 6, 7),
          __builtin_shufflevector(ab_high, de_high, 0, 1, 4, 5),
          __builtin_shufflevector(ab_high, de_high, 2, 3, 6, 7)};
      for (size_t k = 0; k < 4; ++k) {
        std::memcpy(&columns[c + k][i], &transposed[k], sizeof(Four));
      }
    }
  }
}

// Columns [first, first + count) of down_t [F, D] as rows of F.
void TransposeColumns(const compute::Compute& compute, const TensorView& down_t,
                      size_t first, size_t count, std::byte* out) {
  const size_t num_neurons = down_t.shape.num_rows();
  const DType transposed = TransposedType(down_t.dtype);
  const size_t row_bytes = BytesOf(transposed, num_neurons);
  alignas(64) Rows32 rows = {};
  alignas(64) Columns32 columns;
  for (size_t n = 0; n < num_neurons; n += kNeurons) {
    const size_t num_here = std::min(kNeurons, num_neurons - n);
    Decode(compute, down_t, n, num_here, first, count, rows);
    Transpose(rows, count, columns);
    std::byte* place = out + BytesOf(transposed, n);
    for (size_t c = 0; c < count; ++c) {
      compute.kernels->store_row(transposed, columns[c], num_here,
                                 place + c * row_bytes);
    }
  }
}

}  // namespace

void SumRows(const compute::Compute& compute, const RowSums& sums,
             size_t num_tokens) {
  const size_t width = sums.matrix.shape.ne[0];
  const size_t columns =
      ColumnsPerPiece(sums, compute.pool->num_threads(), num_tokens);
  compute.pool->ParallelFor(width, columns,
                            [&](size_t begin, size_t end, int /*worker_idx*/) {
                              for (size_t t = 0; t < num_tokens; ++t) {
                                SumPiece(compute, sums, t, begin, end - begin);
                              }
                            });
}

uint64_t TransposedBytes(uint64_t num_neurons) {
  // The limits of model::Config keep both far below 2^64.
  return RoundUp<uint64_t>(
      std::max(kFloatColumns * num_neurons * sizeof(float),
               kBlockColumns *
                   BytesOf(DType::kQ8_0, RoundUp<uint64_t>(num_neurons, 32))),
      64);
}

bool CanMultiplyTransposed(const compute::Compute& compute,
                           const FfnScratch& scratch,
                           const TensorView& down_t) {
  return scratch.transposed_bytes > 0 && compute.kernels->batch &&
         (IsFloat(down_t.dtype) || down_t.shape.num_rows() % 32 == 0);
}

void MultiplyTransposed(const compute::Compute& compute,
                        const FfnScratch& scratch, const RowSums& sums,
                        size_t num_rows) {
  const TensorView& down_t = sums.matrix;
  const size_t num_neurons = down_t.shape.num_rows();
  TC_CHECK(TransposedBytes(num_neurons) <= scratch.transposed_bytes);
  TensorView weight;
  weight.dtype = TransposedType(down_t.dtype);
  weight.shape = {.ne = {num_neurons, down_t.shape.ne[0], 1, 1}, .rank = 2};
  auto make = [&](size_t first, size_t count, int worker_idx) {
    std::byte* rows = scratch.transposed + static_cast<size_t>(worker_idx) *
                                               scratch.transposed_bytes;
    TransposeColumns(compute, down_t, first, count, rows);
    return static_cast<const std::byte*>(rows);
  };
  const std::array<compute::Product, 1> down = {
      {{.weight = weight,
        .bias = sums.bias,
        .out = sums.out,
        .make = compute::RowsMaker::Of(make, ColumnsOf(down_t.dtype))}}};
  MultiplyAll(compute, compute::ProductForm::kBatch, sums.coefs, num_rows,
              down);
}

}  // namespace thermocline::engine
