// Products with a down matrix that lies transposed: row i belongs to neuron i.
#ifndef THERMOCLINE_ENGINE_FFN_TRANSPOSED_DOWN_H_
#define THERMOCLINE_ENGINE_FFN_TRANSPOSED_DOWN_H_

#include <cstddef>
#include <cstdint>

#include "compute/matmul.h"
#include "compute/rows.h"
#include "engine/ffn/ffn_scratch.h"
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

// What each thread needs for F neurons, a multiple of 64.
uint64_t TransposedBytes(uint64_t num_neurons);

// Whether MultiplyTransposed can be had: the ISA multiplies a prompt's rows in
// batches, the scratch has room, and F divides into blocks.
bool CanMultiplyTransposed(const compute::Compute& compute,
                           const FfnScratch& scratch, const TensorView& down_t);

// As SumRows, of a prompt's rows in batches. Every thread transposes a few
// columns at a time into rows, which all rows of coefficients then meet as in a
// dense product: floats as floats, blocks as Q8_0, which rounds them no more
// than the coefficients are rounded. Cost: decodes the matrix once per call.
void MultiplyTransposed(const compute::Compute& compute,
                        const FfnScratch& scratch, const RowSums& sums,
                        size_t num_rows);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_TRANSPOSED_DOWN_H_
