// CUDA's kernel language for a host compiler: as much of it as kernels may use
// (CONTRIBUTING.md, "A CUDA kernel"). One block runs at a time and each of its
// threads is a fiber, so static thread_local is exactly __shared__. A kernel
// file gets this header through kernels/cuda/cuda.h; what is checked is in
// checker.h.
#ifndef THERMOCLINE_CUDA_ON_HOST_CUDA_ON_HOST_H_
#define THERMOCLINE_CUDA_ON_HOST_CUDA_ON_HOST_H_

#include <bit>
#include <cmath>
#include <cstdint>

#include "cuda_on_host/lane.h"
#include "cuda_on_host/vector_types.h"

// CUDA's names. NOLINTBEGIN(readability-identifier-naming)

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__ static thread_local
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#ifndef __restrict__
#define __restrict__ __restrict
#endif

#define threadIdx (thermocline::cuda_on_host::Self().thread)
#define blockIdx (thermocline::cuda_on_host::Self().block)
#define blockDim (thermocline::cuda_on_host::Self().block_dim)
#define gridDim (thermocline::cuda_on_host::Self().grid_dim)
#define warpSize 32

// Ours, as kernels/cuda/cuda.h has them for nvcc.
#define TC_LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
  thermocline::cuda_on_host::Launch(                              \
      #kernel, kernel, {grid, block, shared_bytes, stream}, __VA_ARGS__)
#define TC_DYNAMIC_SHARED(T, name) \
  T* name = static_cast<T*>(thermocline::cuda_on_host::DynamicShared())

#define TC_PLACE                                  \
  const thermocline::cuda_on_host::Place& place = \
      thermocline::cuda_on_host::Place::current()

inline void __syncthreads(TC_PLACE) {
  thermocline::cuda_on_host::SyncThreads(place);
}
inline void __syncwarp(unsigned mask = ~0u, TC_PLACE) {
  thermocline::cuda_on_host::SyncWarp(mask, place);
}
inline void __threadfence(TC_PLACE) { thermocline::cuda_on_host::Fence(place); }
inline void __threadfence_system(TC_PLACE) {
  thermocline::cuda_on_host::Fence(place);
}

// A source outside the section of `width` lanes leaves a lane its own value.
template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, TC_PLACE) {
  const unsigned last = static_cast<unsigned>(width) - 1;
  const unsigned lane = thermocline::cuda_on_host::Self().lane;
  const unsigned from = (lane & ~last) | (static_cast<unsigned>(source) & last);
  return thermocline::cuda_on_host::Shuffle(
      mask, value, from, thermocline::cuda_on_host::WarpFunction::kShuffle,
      place);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, TC_PLACE) {
  const unsigned last = static_cast<unsigned>(width) - 1;
  const unsigned lane = thermocline::cuda_on_host::Self().lane;
  const unsigned from = lane ^ static_cast<unsigned>(bits);
  return thermocline::cuda_on_host::Shuffle(
      mask, value, (from & ~last) > (lane | last) ? lane : from,
      thermocline::cuda_on_host::WarpFunction::kShuffleXor, place);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 TC_PLACE) {
  const unsigned lane = thermocline::cuda_on_host::Self().lane;
  const unsigned in_section = lane & (static_cast<unsigned>(width) - 1);
  return thermocline::cuda_on_host::Shuffle(
      mask, value, in_section < delta ? lane : lane - delta,
      thermocline::cuda_on_host::WarpFunction::kShuffleUp, place);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   TC_PLACE) {
  const unsigned lane = thermocline::cuda_on_host::Self().lane;
  const unsigned in_section = lane & (static_cast<unsigned>(width) - 1);
  return thermocline::cuda_on_host::Shuffle(
      mask, value,
      in_section + delta >= static_cast<unsigned>(width) ? lane : lane + delta,
      thermocline::cuda_on_host::WarpFunction::kShuffleDown, place);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, TC_PLACE) {
  thermocline::cuda_on_host::Exchanged all;
  const unsigned char bit = predicate != 0;
  thermocline::cuda_on_host::Exchange(
      mask, thermocline::cuda_on_host::WarpFunction::kBallot, &bit, 1, &all,
      place);
  unsigned bits = 0;
  for (unsigned i = 0; i < 32; ++i) {
    if (all.present >> i & 1) bits |= unsigned{all.values[i][0]} << i;
  }
  return bits;
}
inline int __any_sync(unsigned mask, int predicate, TC_PLACE) {
  return __ballot_sync(mask, predicate, place) != 0;
}
inline int __all_sync(unsigned mask, int predicate, TC_PLACE) {
  return __ballot_sync(mask, predicate == 0, place) == 0;
}

inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes) {
  thermocline::cuda_on_host::CopyAsync(to, from, bytes);
}
inline void __pipeline_commit() { thermocline::cuda_on_host::CommitCopies(); }
inline void __pipeline_wait_prior(int keep, TC_PLACE) {
  thermocline::cuda_on_host::WaitForCopies(keep, place);
}

// Threads cannot interrupt each other in these, but the host may share mapped
// memory with them: they are real atomics.
#define TC_ATOMIC(name, expression)                              \
  template <typename T>                                          \
  T name(T* address, std::type_identity_t<T> value) {            \
    thermocline::cuda_on_host::BeforeAtomic(address, sizeof(T)); \
    return expression;                                           \
  }
TC_ATOMIC(atomicAdd, __atomic_fetch_add(address, value, __ATOMIC_SEQ_CST))
TC_ATOMIC(atomicSub, __atomic_fetch_sub(address, value, __ATOMIC_SEQ_CST))
TC_ATOMIC(atomicAnd, __atomic_fetch_and(address, value, __ATOMIC_SEQ_CST))
TC_ATOMIC(atomicOr, __atomic_fetch_or(address, value, __ATOMIC_SEQ_CST))
TC_ATOMIC(atomicMin, __atomic_fetch_min(address, value, __ATOMIC_SEQ_CST))
TC_ATOMIC(atomicMax, __atomic_fetch_max(address, value, __ATOMIC_SEQ_CST))
TC_ATOMIC(atomicExch, __atomic_exchange_n(address, value, __ATOMIC_SEQ_CST))
#undef TC_ATOMIC
#undef TC_PLACE

// One type for both arguments: CUDA's overloads convert, and not as C++ does.
template <typename T>
constexpr T min(T a, T b) {
  return b < a ? b : a;
}
template <typename T>
constexpr T max(T a, T b) {
  return a < b ? b : a;
}
inline int __popc(unsigned v) { return std::popcount(v); }
inline int __clz(int v) { return std::countl_zero(static_cast<unsigned>(v)); }
inline int __ffs(int v) {
  return v == 0 ? 0 : std::countr_zero(static_cast<unsigned>(v)) + 1;
}
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 32; i += 8) {
    c += int{static_cast<int8_t>(a >> i)} * int{static_cast<int8_t>(b >> i)};
  }
  return c;
}

inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float v) { return std::sqrt(v); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __int2float_rn(int v) { return static_cast<float>(v); }
inline int __float2int_rn(float v) {  // saturates, and NaN gives 0
  if (std::isnan(v)) return 0;
  if (v >= 0x1p31f) return INT32_MAX;
  if (v <= -0x1p31f) return INT32_MIN;
  return static_cast<int>(std::nearbyint(v));
}
inline int __float_as_int(float v) { return std::bit_cast<int>(v); }
inline unsigned __float_as_uint(float v) { return std::bit_cast<unsigned>(v); }
inline float __int_as_float(int v) { return std::bit_cast<float>(v); }
inline float __uint_as_float(unsigned v) { return std::bit_cast<float>(v); }

template <typename T>
T __ldg(const T* address) {
  return *address;
}

// NOLINTEND(readability-identifier-naming)

#endif  // THERMOCLINE_CUDA_ON_HOST_CUDA_ON_HOST_H_
