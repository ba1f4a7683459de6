// What makes the bytes of a synthetic model's tensors.
#ifndef THERMOCLINE_SYNTH_FILL_H_
#define THERMOCLINE_SYNTH_FILL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "neuron/record.h"
#include "synth/weights.h"
#include "tensor/dtype.h"

namespace thermocline::synth {

// Rows are made in runs that begin at multiples of it: down matrices are made
// in squares.
inline constexpr uint64_t kSynthRowGrain = 32;

// Writes rows [first, first + count) of a matrix, one behind the other; first
// is a multiple of kSynthRowGrain, and so is count unless it reaches the last
// row. Safe from any thread. Those made from weights or a plan keep a
// reference.
using FillFn =
    std::function<void(uint64_t first, uint64_t count, std::byte* out)>;

// Rows of numbers that `make` gives, row by row.
using RowFn = std::function<void(uint64_t row_idx, std::span<float> row)>;
FillFn FillRows(DType dtype, uint64_t width, RowFn make);
FillFn FillConstant(uint64_t width, float value);  // in F32

// Random weights of this deviation.
FillFn FillRandom(const SynthPlan& plan, SynthPart part, uint64_t place,
                  DType dtype, uint64_t width, double deviation);

// The down matrix of one layer, the same values both ways: rows are neurons
// [N, D]; or dimensions [D, F], of each expert.
FillFn FillDownTransposed(const SynthWeights& weights, uint64_t layer_idx);
FillFn FillDown(const SynthWeights& weights, uint64_t layer_idx);

// The rows [N] that look at the stream: those of the gate, or of up without
// one.
FillFn FillLooks(const SynthWeights& weights, uint64_t layer_idx);

// Records [N], with the rows of gate (with a predictor), up (without a gate
// what looks, in its place) and down transposed.
FillFn FillRecords(const SynthWeights& weights, uint64_t layer_idx);
// How they are made up; the same in all layers.
neuron::RecordLayout SynthRecordLayout(const SynthPlan& plan);

// A predictor's first matrix [R, D]; behind the needed rank random rows, of
// which `place` tells one predictor from another.
FillFn FillPredictorUp(const SynthWeights& weights, uint64_t layer_idx,
                       uint64_t place, DType dtype, SynthWeights::Reads reads);

}  // namespace thermocline::synth

#endif  // THERMOCLINE_SYNTH_FILL_H_
