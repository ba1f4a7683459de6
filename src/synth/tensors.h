// The tensors of a synthetic model's file, each with what makes its bytes.
#ifndef THERMOCLINE_SYNTH_TENSORS_H_
#define THERMOCLINE_SYNTH_TENSORS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "synth/fill.h"
#include "synth/weights.h"
#include "tensor/dtype.h"
#include "tensor/tensor_view.h"

namespace thermocline::synth {

struct SynthTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  FillFn fill;  // of its rows; refers to the weights

  uint64_t num_rows() const { return shape.num_rows(); }
  size_t row_bytes() const { return BytesOf(dtype, shape.ne[0]); }
};

enum class SynthLayout {
  kPrepared,    // records and our predictors: docs/formats/prepared.md
  kPlain,       // llama.cpp's, no predictors
  kPowerInfer,  // transposed down matrices and its predictors
};

// All tensors of the file, in its order. The same weights in every layout, bit
// by bit. `weights` outlives the result.
std::vector<SynthTensor> SynthTensors(const SynthWeights& weights,
                                      SynthLayout layout);

}  // namespace thermocline::synth

#endif  // THERMOCLINE_SYNTH_TENSORS_H_
