// What tests launch: small kernels for those of warps, blocks, memory and the
// runtime, and kernels that each make one mistake, for those of the checker.
#ifndef THERMOCLINE_CUDA_ON_HOST_SMALL_KERNELS_H_
#define THERMOCLINE_CUDA_ON_HOST_SMALL_KERNELS_H_

#include <cstdint>
#include <span>
#include <string_view>

namespace thermocline::cuda_on_host {

// One warp; 32 results a row: shuffles, votes, and what they make of sections.
constexpr int kWarpRows = 9;
void LaunchWarpFunctions(int* results);

// bits[i] of single-thread functions, see the test.
constexpr int kNumScalars = 17;
void LaunchScalars(int* results);

// y[i] += 1 for n elements, by blocks of 32.
void LaunchIncrement(int* y, int n, void* stream);
// The same, with index arithmetic in three dimensions of grid and block.
void LaunchIncrement3d(int* y, void* stream);

// Waits until *flag is not zero, then writes it to *out.
void LaunchWaitForFlag(const uint32_t* flag, uint32_t* out);

// y[i] = x[i * stride] of one warp.
void LaunchStrided(const float* x, int stride, float* y);

// A launch that no GPU takes.
void LaunchTooManyThreads(int* y);

struct PlantedFault {
  std::string_view name;
  std::string_view message;  // a part of what the checker has to say
  // `memory`: 256 bytes of the device, all zero, which are all it may touch.
  void (*launch)(float* memory);
};

std::span<const PlantedFault> PlantedFaults();
// The same without the mistake: the checker has nothing to say.
std::span<const PlantedFault> SoundKernels();

}  // namespace thermocline::cuda_on_host

#endif  // THERMOCLINE_CUDA_ON_HOST_SMALL_KERNELS_H_
