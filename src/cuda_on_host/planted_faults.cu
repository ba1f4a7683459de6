#include "cuda_on_host/small_kernels.h"

#include <cstdint>
#include <iterator>

#include "cuda_on_host/cuda_on_host.h"

namespace thermocline::cuda_on_host {
namespace {

constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kThreads = 64;

// ---- barriers

template <bool kSound>
__global__ void ReverseShared(float* y) {
  __shared__ float shared[kThreads];
  shared[threadIdx.x] = static_cast<float>(threadIdx.x);
  if (kSound) __syncthreads();
  y[threadIdx.x] = shared[kThreads - 1 - threadIdx.x];
}

template <bool kSound>
__global__ void ReuseShared(float* y) {
  __shared__ float shared[kThreads];
  float sum = 0;
  for (int round = 0; round < 3; ++round) {
    shared[threadIdx.x] = static_cast<float>(threadIdx.x) + round;
    __syncthreads();
    sum += shared[kThreads - 1 - threadIdx.x];
    if (kSound) __syncthreads();
  }
  y[threadIdx.x] = sum;
}

// What a warp of old GPUs got away with.
template <bool kSound>
__global__ void AssumeLockstep(float* y) {
  __shared__ float shared[32];
  const unsigned i = threadIdx.x;
  shared[i] = 1;
  __syncwarp();
  for (unsigned distance = 16; distance > 0; distance /= 2) {
    const float other = i < distance ? shared[i + distance] : 0.0f;
    if (kSound) __syncwarp();
    if (i < distance) shared[i] += other;
    if (kSound) __syncwarp();
  }
  y[i] = shared[0];
}

// A shuffle hands over a value and orders nothing else.
__global__ void TakeShuffleForBarrier(float* y) {
  __shared__ float shared[32];
  shared[threadIdx.x] = 1;
  const float zero = __shfl_xor_sync(kAllLanes, 0.0f, 1);
  y[threadIdx.x] = shared[31 - threadIdx.x] + zero;
}

template <bool kSound>
__global__ void Diverge(float* y) {
  if (kSound || threadIdx.x < 32) __syncthreads();
  y[threadIdx.x] = 1;
  __syncthreads();
}

__global__ void DivergeOnOneLine(float* y) {
  // clang-format off
  if (threadIdx.x < 32) __syncthreads(); else __syncthreads();
  // clang-format on
  y[threadIdx.x] = 1;
}

// ---- memory

__global__ void LeaveBounds(float* y, int n) { y[threadIdx.x + n - 63] = 1; }

__global__ void LeaveDynamicShared(float* y) {
  TC_DYNAMIC_SHARED(float, tile);
  tile[threadIdx.x + 1] = 1;
  y[threadIdx.x] = 1;
}

__global__ void WriteThrough(float* y) { y[threadIdx.x] = 1; }

__global__ void Misalign(const uint8_t* bytes, unsigned* out) {
  out[threadIdx.x + 32] =
      *reinterpret_cast<const unsigned*>(bytes + 18 * threadIdx.x + 2);
}

// Aligned for its elements, but not for itself.
__global__ void MisalignVector(float* y) {
  if (threadIdx.x == 0) {
    *reinterpret_cast<float4*>(y + 2) = make_float4(1, 2, 3, 4);
  }
}

template <bool kSound>
__global__ void ReadUnwritten(float* y) {
  __shared__ float shared[kThreads];
  if (kSound || threadIdx.x != 0) shared[threadIdx.x] = 1;
  __syncthreads();
  y[threadIdx.x] = shared[threadIdx.x];
}

// ---- warp functions

__global__ void MixFunctions(float* y) {
  if (threadIdx.x % 32 < 16) {
    y[threadIdx.x] = __shfl_xor_sync(kAllLanes, 1.0f, 1);
  } else {
    y[threadIdx.x] = static_cast<float>(__ballot_sync(kAllLanes, 1));
  }
}

__global__ void CallOutsideMask(float* y) {
  y[threadIdx.x] = __shfl_xor_sync(0xffffu, 1.0f, 1);
}

template <bool kSound>
__global__ void ReadAbsentLane(float* y) {
  if (threadIdx.x == 31) return;
  y[threadIdx.x] = __shfl_sync(kAllLanes, 1.0f, kSound ? 30 : 31);
}

__global__ void OverlapMasks(float* y) {
  const unsigned mask = threadIdx.x < 8 ? 0x000000ffu : 0xffffff80u;
  y[threadIdx.x] = __shfl_sync(mask, 1.0f, 7);
}

// ---- asynchronous copies

template <bool kSound>
__global__ void CopyInBackground(const float* x, float* y) {
  __shared__ float shared[kThreads];
  __pipeline_memcpy_async(&shared[threadIdx.x], &x[threadIdx.x], 4);
  __pipeline_commit();
  if (kSound) __pipeline_wait_prior(0);
  __syncthreads();
  const float value = shared[kThreads - 1 - threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = value;
}

// ---- between blocks

__global__ void RaceBlocks(float* y) { *y = *y + 1; }

template <bool kSound>
__global__ void Count(int* y) {
  if (kSound) {
    atomicAdd(y, 1);
  } else {
    y[0] = y[0] + 1;
  }
}

// The last block sums what all have left.
template <bool kFence>
__global__ void SumByLast(float* y) {
  int* ticket = reinterpret_cast<int*>(y + 63);
  y[blockIdx.x] = 1;
  if (kFence) __threadfence();
  if (atomicAdd(ticket, 1) != static_cast<int>(gridDim.x) - 1) return;
  __threadfence();
  float sum = 0;
  for (unsigned i = 0; i < gridDim.x; ++i) sum += y[i];
  y[62] = sum;
}

void OnHostMemory(float*) {
  static float* host = new float[kThreads];
  TC_LAUNCH(WriteThrough, dim3(1), dim3(kThreads), 0, nullptr, host);
}

// One block of 64 threads, or of a warp.
#define TC_ONE(kernel, threads, ...)                                      \
  [](float* y) {                                                          \
    TC_LAUNCH((kernel), dim3(1), dim3(threads), 0, nullptr, __VA_ARGS__); \
  }
#define TC_BLOCKS(kernel, blocks, ...)                                   \
  [](float* y) {                                                         \
    TC_LAUNCH((kernel), dim3(blocks), dim3(1), 0, nullptr, __VA_ARGS__); \
  }

constexpr PlantedFault kFaults[] = {
    // A race, or what was never written: which, is the order's choice.
    {"no barrier between write and read", "shared memory",
     TC_ONE(ReverseShared<false>, kThreads, y)},
    {"no barrier before memory is used again", "race on shared",
     TC_ONE(ReuseShared<false>, kThreads, y)},
    {"lockstep taken for granted", "race on shared",
     TC_ONE(AssumeLockstep<false>, 32, y)},
    {"a shuffle taken for a barrier", "race on shared",
     TC_ONE(TakeShuffleForBarrier, 32, y)},
    {"a barrier that half of the block passes", "__syncthreads of line",
     TC_ONE(Diverge<false>, kThreads, y)},
    {"two barriers on one line", "__syncthreads of line",
     TC_ONE(DivergeOnOneLine, kThreads, y)},
    {"past the end", "not the device's", TC_ONE(LeaveBounds, kThreads, y, 64)},
    {"before the beginning", "not the device's",
     TC_ONE(LeaveBounds, kThreads, y, 62)},
    {"past dynamic shared memory", "dynamic shared memory",
     [](float* y) {
       TC_LAUNCH(LeaveDynamicShared, dim3(1), dim3(kThreads), 4 * kThreads,
                 nullptr, y);
     }},
    {"the host's memory", "not the device's", OnHostMemory},
    {"a word at an odd place", "not aligned",
     TC_ONE(Misalign, 2, reinterpret_cast<const uint8_t*>(y),
            reinterpret_cast<unsigned*>(y))},
    {"a vector at a place for floats", "not aligned",
     TC_ONE(MisalignVector, 32, y)},
    {"shared memory that nothing wrote", "nothing wrote",
     TC_ONE(ReadUnwritten<false>, kThreads, y)},
    {"different warp functions", "different warp functions",
     TC_ONE(MixFunctions, kThreads, y)},
    {"a lane outside its mask", "under a mask without it",
     TC_ONE(CallOutsideMask, 32, y)},
    {"a lane that has left", "takes no part",
     TC_ONE(ReadAbsentLane<false>, 32, y)},
    {"masks that overlap", "masks that overlap", TC_ONE(OverlapMasks, 32, y)},
    {"an asynchronous copy without a wait", "nothing wrote",
     TC_ONE(CopyInBackground<false>, kThreads, y, y)},
    {"blocks that add to one word", "race on device",
     TC_BLOCKS(RaceBlocks, 4, y)},
    {"blocks that count without an atomic", "race on device",
     TC_BLOCKS(Count<false>, 4, reinterpret_cast<int*>(y))},
    {"no fence before the ticket", "race on device",
     TC_BLOCKS(SumByLast<false>, 8, y)},
};

constexpr PlantedFault kSound[] = {
    {"barrier", "", TC_ONE(ReverseShared<true>, kThreads, y)},
    {"barrier in a loop", "", TC_ONE(ReuseShared<true>, kThreads, y)},
    {"__syncwarp", "", TC_ONE(AssumeLockstep<true>, 32, y)},
    {"two barriers", "", TC_ONE(Diverge<true>, kThreads, y)},
    {"all written", "", TC_ONE(ReadUnwritten<true>, kThreads, y)},
    {"a lane that is there", "", TC_ONE(ReadAbsentLane<true>, 32, y)},
    {"a wait", "", TC_ONE(CopyInBackground<true>, kThreads, y, y)},
    {"atomics", "", TC_BLOCKS(Count<true>, 4, reinterpret_cast<int*>(y))},
    {"a fence", "", TC_BLOCKS(SumByLast<true>, 8, y)},
};

}  // namespace

std::span<const PlantedFault> PlantedFaults() { return kFaults; }
std::span<const PlantedFault> SoundKernels() { return kSound; }

}  // namespace thermocline::cuda_on_host
