// Products of many tokens with a down matrix that lies transposed.
#ifndef THERMOCLINE_ENGINE_FFN_TRANSPOSED_DOWN_H_
#define THERMOCLINE_ENGINE_FFN_TRANSPOSED_DOWN_H_

#include <cstddef>
#include <cstdint>

#include "compute/matmul.h"
#include "engine/ffn/ffn_scratch.h"
#include "engine/ffn/sum_rows.h"
#include "tensor/tensor_view.h"

namespace thermocline::engine {

// What each thread needs for F neurons, a multiple of 64.
uint64_t TransposedBytes(uint64_t num_neurons);

// Whether MultiplyTransposed can be had: the ISA multiplies a prompt's rows in
// batches, the scratch has room, and F divides into blocks.
bool CanTurnDown(const compute::Compute& compute, const FfnScratch& scratch,
                 const TensorView& down_t);

// As SumRows, of a prompt's rows in batches. Every thread transposes a few
// columns at a time into rows, which all rows of coefficients then meet as in a
// dense product: floats as floats, blocks as Q8_0, which rounds them no more
// than the coefficients are rounded. Cost: decodes the matrix once per call.
void MultiplyTransposed(const compute::Compute& compute,
                        const FfnScratch& scratch, const RowSums& sums,
                        size_t num_rows);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_TRANSPOSED_DOWN_H_
