// Sums of all rows of a matrix with coefficients, over all threads.
#ifndef THERMOCLINE_ENGINE_FFN_SUM_ROWS_H_
#define THERMOCLINE_ENGINE_FFN_SUM_ROWS_H_

#include <cstddef>

#include "compute/matmul.h"
#include "compute/rows.h"
#include "tensor/tensor_view.h"

namespace thermocline::engine {

struct RowSums {
  TensorView matrix;    // [F, D], a type that the kernels have
  TensorView bias;      // [D] F32, or absent
  compute::Rows coefs;  // [T, F]
  compute::Rows out;    // [T, D]
};

// out[t] = sum of coefs[t][i] * row i of token t, + bias. Threads share the
// columns of out, and every column takes its terms in the order of the rows:
// bit-equal for every number of threads and every cut of a batch. Allocates
// nothing.
// Cost: reads the matrix once; in a batch a slice of columns of the whole
// matrix stays in the cache while all tokens pass by.
void SumRows(const compute::Compute& compute, const RowSums& sums,
             size_t num_tokens);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_SUM_ROWS_H_
