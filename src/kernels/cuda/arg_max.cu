#include <cstddef>
#include <cstdint>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/launch.h"

namespace thermocline::cuda {
namespace {

using Key = unsigned long long;  // as CUDA's shuffles know 64 bits

constexpr int kArgMaxThreads = 1024;
constexpr int kArgMaxWarps = kArgMaxThreads / kWarpLanes;

// Greater for what is chosen before: the value, NaN above all and both zeros
// alike, then the smaller index.
__device__ Key KeyOf(float value, uint32_t index) {
  const uint32_t bits = __float_as_uint(value);
  uint32_t order = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  if (value == 0.0f) order = 0x80000000u;
  if (value != value) order = 0xffffffffu;
  return static_cast<Key>(order) << 32 | (0xffffffffu - index);
}

__device__ Key WarpLargest(Key key) {
  for (int distance = kWarpLanes / 2; distance > 0; distance /= 2) {
    key = max(key, __shfl_xor_sync(kAllLanes, key, distance));
  }
  return key;
}

// A block per row: it has the rows' one pass over memory to itself anyway.
__global__ void __launch_bounds__(kArgMaxThreads)
    ArgMax(const kernels::ArgMaxArgs a) {
  __shared__ Key warp_keys[kArgMaxWarps];
  const float* x = a.x + static_cast<size_t>(blockIdx.x) * a.n;
  Key largest = 0;  // below every key
#pragma unroll 4
  for (uint32_t i = threadIdx.x; i < a.n; i += kArgMaxThreads) {
    largest = max(largest, KeyOf(x[i], i));
  }
  largest = WarpLargest(largest);
  if (threadIdx.x % kWarpLanes == 0) {
    warp_keys[threadIdx.x / kWarpLanes] = largest;
  }
  __syncthreads();
  if (threadIdx.x >= kWarpLanes) return;
  largest = WarpLargest(warp_keys[threadIdx.x]);
  if (threadIdx.x == 0) {
    a.out[blockIdx.x] = 0xffffffffu - static_cast<uint32_t>(largest);
  }
}

}  // namespace

void Launch(const kernels::ArgMaxArgs& args, void* stream) {
  if (args.n == 0) return;
  TC_LAUNCH(ArgMax, dim3(args.num_tokens), dim3(kArgMaxThreads), 0, stream,
            args);
}

}  // namespace thermocline::cuda
