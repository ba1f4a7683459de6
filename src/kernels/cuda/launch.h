// Launches the operations of kernels/device_ops.h on a GPU. For device/cuda.
#ifndef THERMOCLINE_KERNELS_CUDA_LAUNCH_H_
#define THERMOCLINE_KERNELS_CUDA_LAUNCH_H_

#include <cstddef>

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

// What Launch(GemvArgs) does, for operations that it is a part of.
void LaunchGemv(const kernels::GemvArgs& args, void* stream);
// The same, negative results replaced by 0. NaN stays.
void LaunchGemvRelu(const kernels::GemvArgs& args, void* stream);

// What Launch(PredictArgs) does: the predictor's two products, and the sets of
// what reaches the threshold. Bits past the last neuron are 0.
void LaunchPredict(const kernels::PredictArgs& args, void* stream);

// Rows of x that are to be rounded to 8 bits per 32 elements, for products with
// weights in blocks.
struct QuantizeRowsArgs {
  int n = 0;  // a multiple of 32
  int num_rows = 0;
  const float* x = nullptr;   // [num_rows, n]
  std::byte* rows = nullptr;  // kernels::QuantizedRowsBytes(n, num_rows)
};

// Each row, at a multiple of 16 bytes: quants [n], int8; scales [n / 32],
// float; sums of quants [n / 32][2], int16, of 16 each. Scales and quants are
// the host's (kernels/activation_row.h) bit for bit; a block with NaN or
// infinity has such a scale.
void LaunchQuantizeRows(const QuantizeRowsArgs& args, void* stream);

}  // namespace thermocline::cuda

#endif  // THERMOCLINE_KERNELS_CUDA_LAUNCH_H_
