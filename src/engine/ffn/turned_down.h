// Products of many tokens with a down matrix that lies transposed.
#ifndef THERMOCLINE_ENGINE_FFN_TURNED_DOWN_H_
#define THERMOCLINE_ENGINE_FFN_TURNED_DOWN_H_

#include <cstddef>
#include <cstdint>

#include "engine/matmul.h"
#include "engine/scratch.h"
#include "tensor/tensor_view.h"

namespace thermocline::engine {

// What each thread needs for F neurons, a multiple of 64.
uint64_t TurnedBytes(uint64_t num_neurons);

// Whether MultiplyTurned is for this batch: it gets the products of many tokens
// (KernelTable::batch_for), the scratch has room, and F divides into blocks.
// As the size of the batch chooses between the forms of products, so it does
// here: a token's result does not depend on its neighbours.
bool CanTurnDown(const Compute& compute, const Scratch& scratch,
                 const TensorView& down_t, size_t num_tokens);

// scratch.delta[t] = scratch.up[t] [F] times down_t [F, D] + bias [D] (or
// absent), t < T. Every thread turns a few columns at a time into rows, which
// all tokens then meet as in a dense product: floats as floats, blocks as Q8_0,
// which rounds them no more than the tokens are rounded.
// Cost: decodes the matrix once per batch.
void MultiplyTurned(const Compute& compute, const Scratch& scratch,
                    const TensorView& down_t, const TensorView& bias,
                    size_t num_tokens);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_TURNED_DOWN_H_
