#include "cuda_on_host/small_kernels.h"

#include <cstdint>

#include "cuda_on_host/cuda_on_host.h"

namespace thermocline::cuda_on_host {
namespace {

constexpr unsigned kAll = 0xffffffffu;

__global__ void WarpFunctions(int* results) {
  const int lane = static_cast<int>(threadIdx.x);
  int* out = results + lane;
  out[0 * 32] = __shfl_sync(kAll, lane, 5);
  out[1 * 32] = __shfl_sync(kAll, lane, 5, 8);
  out[2 * 32] = __shfl_xor_sync(kAll, lane, 3);
  out[3 * 32] = __shfl_up_sync(kAll, lane, 2, 16);
  out[4 * 32] = __shfl_down_sync(kAll, lane, 3, 16);
  out[5 * 32] = static_cast<int>(__ballot_sync(kAll, lane % 3 == 0));
  out[6 * 32] = __any_sync(kAll, lane == 7) + 2 * __any_sync(kAll, 0);
  out[7 * 32] = __all_sync(kAll, lane < 32) + 2 * __all_sync(kAll, lane < 31);
  // Halves of a warp that go their own ways.
  const unsigned half = lane < 16 ? 0x0000ffffu : 0xffff0000u;
  out[8 * 32] = static_cast<int>(__ballot_sync(half, lane & 1));
}

__global__ void Scalars(int* results) {
  int i = 0;
  results[i++] = __popc(0xf0f0u);
  results[i++] = __clz(1);
  results[i++] = __clz(0);
  results[i++] = __ffs(0);
  results[i++] = __ffs(8);
  results[i++] = __dp4a(0x7f80ff01, 0x01020304, 10);
  results[i++] = __float2int_rn(2.5f);
  results[i++] = __float2int_rn(-3.5f);
  results[i++] = __float2int_rn(1e20f);
  results[i++] = __float2int_rn(-1e20f);
  results[i++] = __float2int_rn(__int_as_float(0x7fc00000));
  results[i++] = __float_as_int(__fmaf_rn(1.5f, 2.0f, 0.25f));
  results[i++] = min(3, 4) + 10 * max(3, 4);
  results[i++] = 5;
  results[i++] = atomicAdd(&results[13], 2);
  results[i++] = atomicMax(&results[13], 9);
  results[i++] = atomicExch(&results[13], 1);
}

__global__ void Increment(int* y, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) y[i] += 1;
}

__global__ void Increment3d(int* y) {
  const unsigned block =
      blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread =
      threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  y[block * blockDim.x * blockDim.y * blockDim.z + thread] += 1;
}

__global__ void WaitForFlag(const uint32_t* flag, uint32_t* out) {
  uint32_t value = 0;
  while (value == 0) value = LoadAcquire(flag);
  *out = value;
}

__global__ void Strided(const float* x, int stride, float* y) {
  y[threadIdx.x] = x[static_cast<int>(threadIdx.x) * stride];
}

}  // namespace

void LaunchWarpFunctions(int* results) {
  TC_LAUNCH(WarpFunctions, dim3(1), dim3(32), 0, nullptr, results);
}
void LaunchScalars(int* results) {
  TC_LAUNCH(Scalars, dim3(1), dim3(1), 0, nullptr, results);
}
void LaunchIncrement(int* y, int n, void* stream) {
  const unsigned blocks = (static_cast<unsigned>(n) + 31) / 32;
  TC_LAUNCH(Increment, dim3(blocks), dim3(32), 0, stream, y, n);
}
void LaunchIncrement3d(int* y, void* stream) {
  TC_LAUNCH(Increment3d, dim3(2, 3, 2), dim3(4, 3, 5), 0, stream, y);
}
void LaunchWaitForFlag(const uint32_t* flag, uint32_t* out) {
  TC_LAUNCH(WaitForFlag, dim3(1), dim3(1), 0, nullptr, flag, out);
}
void LaunchStrided(const float* x, int stride, float* y) {
  TC_LAUNCH(Strided, dim3(1), dim3(32), 0, nullptr, x, stride, y);
}
void LaunchTooManyThreads(int* y) {
  TC_LAUNCH(Increment, dim3(1), dim3(1025), 0, nullptr, y, 1);
}

}  // namespace thermocline::cuda_on_host
