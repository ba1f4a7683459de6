// Products of a matrix with a few rows, in parts for other operations.
#ifndef THERMOCLINE_KERNELS_CUDA_GEMV_H_
#define THERMOCLINE_KERNELS_CUDA_GEMV_H_

#include "kernels/cuda/launch.h"

namespace thermocline::cuda {

// What Launch(GemvArgs) does.
void LaunchGemv(const kernels::GemvArgs& args, void* stream);
// The same, negative results replaced by 0. NaN stays.
void LaunchGemvRelu(const kernels::GemvArgs& args, void* stream);

}  // namespace thermocline::cuda

#endif  // THERMOCLINE_KERNELS_CUDA_GEMV_H_
