#include <cstddef>
#include <cstdint>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/math.h"

namespace thermocline::cuda {
namespace {

constexpr int kElementThreads = 256;

uint32_t BlocksFor(uint32_t count) {
  return (count + kElementThreads - 1) / kElementThreads;
}

__global__ void __launch_bounds__(kElementThreads)
    Activate(const kernels::ActivateArgs a) {
  const uint32_t i = blockIdx.x * kElementThreads + threadIdx.x;
  if (i >= a.count) return;
  float up = a.up[i];
  if (a.gate == nullptr) {
    a.out[i] = Activated(a.activation, a.threshold, up);
    return;
  }
  if (a.activation == Activation::kDRelu) up = up < 0.0f ? 0.0f : up;
  a.out[i] = __fmul_rn(Activated(a.activation, a.threshold, a.gate[i]), up);
}

// Row blockIdx.y.
__global__ void __launch_bounds__(kElementThreads)
    AddRowsScaled(const kernels::AddRowsScaledArgs a) {
  const uint32_t i = blockIdx.x * kElementThreads + threadIdx.x;
  if (i >= a.n) return;
  const float factor = a.factors == nullptr ? 1.0f : a.factors[blockIdx.y];
  const size_t at = static_cast<size_t>(blockIdx.y) * a.n + i;
  a.out[at] = __fmaf_rn(factor, a.x[at], a.out[at]);
}

}  // namespace

void Launch(const kernels::ActivateArgs& args, void* stream) {
  if (args.count == 0) return;
  TC_LAUNCH(Activate, dim3(BlocksFor(args.count)), dim3(kElementThreads), 0,
            stream, args);
}

void Launch(const kernels::AddRowsScaledArgs& args, void* stream) {
  if (args.n == 0) return;
  TC_LAUNCH(AddRowsScaled, dim3(BlocksFor(args.n), args.num_tokens),
            dim3(kElementThreads), 0, stream, args);
}

}  // namespace thermocline::cuda
