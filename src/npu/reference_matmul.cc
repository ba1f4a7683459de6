#include <algorithm>
#include <array>
#include <utility>

#include "npu/reference_ops.h"

namespace thermocline::npu {
namespace {

// Columns that are summed at once: as many sums as registers hold. Each keeps
// the order of K, whatever stands beside it.
constexpr int64_t kWidth = 16;
using ProductSums = std::array<double, kWidth>;

struct ProductExtents {
  int64_t rows = 0;     // M
  int64_t inner = 0;    // K
  int64_t columns = 0;  // N
};

// [rows, columns] of a matrix that may lie the other way round.
struct StridedMatrix {
  const float* data = nullptr;
  int64_t row_step = 0;
  int64_t column_step = 0;

  float at(int64_t row, int64_t column) const {
    return data[row * row_step + column * column_step];
  }
};

StridedMatrix MatrixOf(const float* data, int64_t rows, int64_t columns,
                       bool is_transposed) {
  if (is_transposed) return {data, 1, rows};
  return {data, columns, 1};
}

// Columns [first, first + kWidth) of b as [K, kWidth], zeros beyond the last.
void PackColumns(const StridedMatrix& b, const ProductExtents& extents,
                 int64_t first, float* panel) {
  const int64_t width = std::min(kWidth, extents.columns - first);
  std::fill_n(panel, extents.inner * kWidth, 0.0f);
  if (b.column_step == 1) {
    for (int64_t k = 0; k < extents.inner; ++k) {
      std::copy_n(b.data + k * b.row_step + first, width, panel + k * kWidth);
    }
    return;
  }
  for (int64_t j = 0; j < width; ++j) {
    for (int64_t k = 0; k < extents.inner; ++k) {
      panel[k * kWidth + j] = b.at(k, first + j);
    }
  }
}

void AddProducts(const float* row, const float* panel, int64_t inner,
                 ProductSums& sums) {
  ProductSums held = {};
  for (int64_t k = 0; k < inner; ++k) {
    const double factor = row[k];
    for (size_t j = 0; j < kWidth; ++j) {
      held[j] += factor * panel[k * kWidth + static_cast<int64_t>(j)];
    }
  }
  sums = held;
}

// The rows of a lie one behind the other by then.
void MultiplyOne(const float* a, const StridedMatrix& b,
                 const ProductExtents& extents, std::vector<float>& panel,
                 float* out) {
  panel.resize(static_cast<size_t>(extents.inner * kWidth));
  for (int64_t first = 0; first < extents.columns; first += kWidth) {
    PackColumns(b, extents, first, panel.data());
    const int64_t width = std::min(kWidth, extents.columns - first);
    for (int64_t row = 0; row < extents.rows; ++row) {
      ProductSums sums;
      AddProducts(a + row * extents.inner, panel.data(), extents.inner, sums);
      for (int64_t j = 0; j < width; ++j) {
        out[row * extents.columns + first + j] =
            static_cast<float>(sums[static_cast<size_t>(j)]);
      }
    }
  }
}

std::vector<float> Untransposed(const float* a, const ProductExtents& extents) {
  std::vector<float> rows(static_cast<size_t>(extents.rows * extents.inner));
  const StridedMatrix matrix = MatrixOf(a, extents.rows, extents.inner, true);
  size_t at = 0;
  for (int64_t row = 0; row < extents.rows; ++row) {
    for (int64_t k = 0; k < extents.inner; ++k) rows[at++] = matrix.at(row, k);
  }
  return rows;
}

// What comes before the matrices themselves, and how many elements these have.
std::pair<Dims, int64_t> SplitDims(const Dims& dims) {
  return {Dims(dims.begin(), dims.end() - 2),
          dims[dims.size() - 1] * dims[dims.size() - 2]};
}

}  // namespace

HostTensor MatrixProduct(const Node& node, const HostTensor& a,
                         const HostTensor& b) {
  const FloatsOf floats_a(a);
  const FloatsOf floats_b(b);
  FloatTensor out(node.outputs[0]);
  const auto [batch_a, size_a] = SplitDims(a.type.dims);
  const auto [batch_b, size_b] = SplitDims(b.type.dims);
  const auto [batch, size] = SplitDims(node.outputs[0].dims);
  const Dims& dims = node.outputs[0].dims;
  const ProductExtents extents = {.rows = dims[dims.size() - 2],
                                  .inner = size_a / dims[dims.size() - 2],
                                  .columns = dims.back()};
  Odometer<2> at(batch, {BroadcastStrides(batch_a, batch),
                         BroadcastStrides(batch_b, batch)});
  std::vector<float> panel;
  const int64_t num_products = NumElements(batch);
  for (int64_t i = 0; i < num_products; ++i, at.Next()) {
    const float* rows = floats_a.data() + at.at(0) * size_a;
    std::vector<float> turned;
    if (node.transpose_a) {
      turned = Untransposed(rows, extents);
      rows = turned.data();
    }
    const StridedMatrix columns =
        MatrixOf(floats_b.data() + at.at(1) * size_b, extents.inner,
                 extents.columns, node.transpose_b);
    MultiplyOne(rows, columns, extents, panel, out.data() + i * size);
  }
  return out.Finish();
}

}  // namespace thermocline::npu
