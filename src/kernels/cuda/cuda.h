// What a kernel file includes, beside std's integers and tensor/blocks.h:
// CUDA's kernel language, from nvcc or played on the host (cuda_on_host/), and
// the few things that the two spell differently. The only file that asks which
// it is. CONTRIBUTING.md, "A CUDA kernel", says what kernels may use.
#ifndef THERMOCLINE_KERNELS_CUDA_CUDA_H_
#define THERMOCLINE_KERNELS_CUDA_CUDA_H_

#include <cstdint>

#ifdef __CUDACC__

#include <cuda_fp16.h>
#include <cuda_pipeline_primitives.h>

// kernel<<<...>>>(arguments...); `stream` is a cudaStream_t as void*.
#define TC_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)           \
  kernel<<<grid, block, shared_bytes, static_cast<cudaStream_t>(stream)>>>( \
      __VA_ARGS__)

// T* name: the shared memory that the launch asked for, aligned to 16 bytes.
#define TC_DYNAMIC_SHARED(T, name)                                         \
  extern __shared__ __align__(16) unsigned char tc_dynamic_shared_bytes[]; \
  T* name = reinterpret_cast<T*>(tc_dynamic_shared_bytes)

namespace thermocline::cuda {

// Pairs with the host's release or acquire on the same word of mapped memory.
__device__ inline uint32_t LoadAcquireSystem(const uint32_t* address) {
  uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];"
               : "=r"(value)
               : "l"(address)
               : "memory");
  return value;
}
__device__ inline void StoreReleaseSystem(uint32_t* address, uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(address), "r"(value)
               : "memory");
}

__device__ inline float F16ToF32(uint16_t bits) {
  return __half2float(__ushort_as_half(bits));
}
// Round to nearest, ties to even.
__device__ inline uint16_t F32ToF16(float value) {
  return __half_as_ushort(__float2half_rn(value));
}

}  // namespace thermocline::cuda

#else

#include "cuda_on_host/cuda_on_host.h"

namespace thermocline::cuda {

inline uint32_t LoadAcquireSystem(const uint32_t* address) {
  return thermocline::cuda_on_host::LoadAcquire(address);
}
inline void StoreReleaseSystem(uint32_t* address, uint32_t value) {
  thermocline::cuda_on_host::StoreRelease(address, value);
}
inline float F16ToF32(uint16_t bits) {
  return thermocline::cuda_on_host::HalfToFloat(bits);
}
inline uint16_t F32ToF16(float value) {
  return thermocline::cuda_on_host::FloatToHalf(value);
}

}  // namespace thermocline::cuda

#endif

namespace thermocline::cuda {

constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kWarpLanes = 32;

// BF16 is the upper half of an F32.
__device__ inline float BF16ToF32(uint16_t bits) {
  return __uint_as_float(static_cast<unsigned>(bits) << 16);
}

// Every lane gets the sum or maximum of all 32, in an order that is always the
// same.
template <typename T>
__device__ T WarpSum(T value) {
  for (int distance = kWarpLanes / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}
__device__ inline float WarpMax(float value) {
  for (int distance = kWarpLanes / 2; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

}  // namespace thermocline::cuda

#endif  // THERMOCLINE_KERNELS_CUDA_CUDA_H_
