// Into which graphs a model's layers are cut.
#ifndef THERMOCLINE_NPU_STATIC_STEPS_H_
#define THERMOCLINE_NPU_STATIC_STEPS_H_

#include <cstddef>
#include <vector>

#include "base/status.h"
#include "model/model.h"
#include "npu/layer_inputs.h"
#include "npu/static_model.h"

namespace thermocline::npu {

// What one run of a program computes.
struct Step {
  size_t first_layer = 0;
  size_t num_layers = 1;
  // The layer whose program it is: itself, or of weights that are inputs the
  // first with the same tensors and shape.
  size_t program_of = 0;
};

// inputs: [L] of each layer, if weights are inputs; else empty.
std::vector<Step> MakeSteps(const model::Config& config,
                            const StaticOptions& options,
                            const std::vector<std::vector<LayerInput>>& inputs);

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_STATIC_STEPS_H_
