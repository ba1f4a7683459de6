// Matrices of a file, made into what packing.h says.
#ifndef THERMOCLINE_NPU_PACK_ROWS_H_
#define THERMOCLINE_NPU_PACK_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "npu/packing.h"
#include "tensor/tensor_view.h"

namespace thermocline::npu {

// A matrix, or a vector of one row, as the graph wants it.
struct MatrixSource {
  TensorView view;
  bool is_transposed = false;   // the rows of the view are its columns
  std::vector<uint32_t> order;  // its row i is the view's order[i]; or empty

  size_t rows() const {
    return is_transposed ? view.shape.ne[0] : view.shape.num_rows();
  }
  size_t columns() const {
    return is_transposed ? view.shape.num_rows() : view.shape.ne[0];
  }
};

// Memory of TypesOf's types; null: not wanted, or there is none.
struct PackedMemory {
  std::byte* weight = nullptr;
  std::byte* scale = nullptr;
  std::byte* zero = nullptr;
};

// Writes all rows. relative_error: the root of squared error over squared
// signal, as if products of elements and scales were not rounded; null: not
// wanted, which is faster. kInvalidArgument, the row named: a number that is
// not finite, or beyond F16.
Status PackMatrix(const MatrixSource& source, const Packing& packing,
                  const PackedMemory& to, double* relative_error);

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_PACK_ROWS_H_
