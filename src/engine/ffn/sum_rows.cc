#include "engine/ffn/sum_rows.h"

#include <algorithm>

#include "base/math.h"

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

}  // namespace thermocline::engine
