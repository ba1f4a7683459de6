// The rows that open a layer's neurons, as floats: expert by expert, since
// those of all experts together would be by far the largest thing in memory.
#ifndef THERMOCLINE_TRAINING_GATE_ROWS_H_
#define THERMOCLINE_TRAINING_GATE_ROWS_H_

#include <cstddef>
#include <functional>
#include <vector>

#include "tensor/tensor_view.h"
#include "training/gemm.h"
#include "training/low_rank.h"

namespace thermocline::training {

// Of the F neurons of one FFN or expert.
struct GateRows {
  std::vector<float> rows;    // [F, D]
  std::vector<float> biases;  // [F]
};

// A layer's: `read` gives those of an expert (0 without experts), the same ones
// whenever it is asked.
struct Gate {
  size_t num_experts = 1;
  std::function<GateRows(size_t expert_idx)> read;
};

// From `gate` [F, D] and `bias` [F] F32 (or empty), for inputs that Samples
// scale: rows are divided by input_scale.
GateRows ReadGate(const Gemm& gemm, const TensorView& gate,
                  const TensorView& bias, float input_scale);

// Guesses a layer's own input from an earlier layer's, by the linear map with
// the least square error over the samples (of the same tokens; scaled
// likewise).
struct InputGuess {
  std::vector<float> map;           // [D, D], transposed: earlier x own
  std::vector<float> earlier_mean;  // [D]
  std::vector<float> own_mean;      // [D]
};
InputGuess FitGuess(const Gemm& gemm, const Samples& earlier,
                    const Samples& own);

// The rows that open the same neurons, for the inputs of the earlier layer.
GateRows LookAhead(const Gemm& gemm, const GateRows& gate,
                   const InputGuess& guess);

}  // namespace thermocline::training

#endif  // THERMOCLINE_TRAINING_GATE_ROWS_H_
