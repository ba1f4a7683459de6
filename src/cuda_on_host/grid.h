// One launch, and what orders the memory of its blocks.
#ifndef THERMOCLINE_CUDA_ON_HOST_GRID_H_
#define THERMOCLINE_CUDA_ON_HOST_GRID_H_

#include <cstddef>

namespace thermocline::cuda_on_host {

constexpr size_t kMaxSharedBytes = 48 << 10;  // that any card has unasked
constexpr unsigned kMaxBlockThreads = 1024;

}  // namespace thermocline::cuda_on_host

#endif  // THERMOCLINE_CUDA_ON_HOST_GRID_H_
