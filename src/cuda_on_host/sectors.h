// Counts what warps move: 32-byte sectors per access of a warp, which is what a
// GPU's memory is asked for.
#ifndef THERMOCLINE_CUDA_ON_HOST_SECTORS_H_
#define THERMOCLINE_CUDA_ON_HOST_SECTORS_H_

#include <cstddef>
#include <string_view>

#include "cuda_on_host/control.h"

namespace thermocline::cuda_on_host {

// An access of the running thread. The n-th access of a lane at one place goes
// with the n-th of the other lanes of its warp.
void CountSectors(const void* pc, const void* allocation, const void* address,
                  size_t bytes);
// The block is done: what its warps did is added up.
void AddUpSectors();

Traffic TrafficOf(std::string_view kernel, const void* allocation);
void ClearTraffic();

}  // namespace thermocline::cuda_on_host

#endif  // THERMOCLINE_CUDA_ON_HOST_SECTORS_H_
