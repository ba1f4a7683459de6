// The predictor's two products, and the sets of what reaches the threshold.
#ifndef THERMOCLINE_KERNELS_CUDA_PREDICT_H_
#define THERMOCLINE_KERNELS_CUDA_PREDICT_H_

#include "kernels/cuda/launch.h"

namespace thermocline::cuda {

// What Launch(PredictArgs) does. Bits past the last neuron are 0.
void LaunchPredict(const kernels::PredictArgs& args, void* stream);

}  // namespace thermocline::cuda

#endif  // THERMOCLINE_KERNELS_CUDA_PREDICT_H_
