// Launches the operations of kernels/device_ops.h on a GPU. For device/cuda.
#ifndef THERMOCLINE_KERNELS_CUDA_LAUNCH_H_
#define THERMOCLINE_KERNELS_CUDA_LAUNCH_H_

#include "kernels/device_ops.h"

namespace thermocline::cuda {

// Enqueue; `stream` is a cudaStream_t. Errors are cudaGetLastError's. What the
// arguments have to be is CHECKed by whoever calls (device/), not here.
void Launch(const kernels::NormArgs& args, void* stream);
void Launch(const kernels::GemvArgs& args, void* stream);
void Launch(const kernels::RopeArgs& args, void* stream);
void Launch(const kernels::KvAppendArgs& args, void* stream);
void Launch(const kernels::DecodeAttentionArgs& args, void* stream);
void Launch(const kernels::ActivateArgs& args, void* stream);
void Launch(const kernels::AddRowsScaledArgs& args, void* stream);
void Launch(const kernels::PredictArgs& args, void* stream);
void Launch(const kernels::SparseFfnArgs& args, void* stream);
void Launch(const kernels::ArgMaxArgs& args, void* stream);

// Whether GemvArgs, PredictArgs and SparseFfnArgs may have weights of a type:
// F16, BF16, Q8_0, Q4_0, Q4_K, Q5_K, Q6_K.
bool CanLaunch(DType dtype);

}  // namespace thermocline::cuda

#endif  // THERMOCLINE_KERNELS_CUDA_LAUNCH_H_
