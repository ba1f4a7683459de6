// Where the lanes of a warp meet.
#ifndef THERMOCLINE_CUDA_ON_HOST_WARP_H_
#define THERMOCLINE_CUDA_ON_HOST_WARP_H_

#include "cuda_on_host/run_state.h"

namespace thermocline::cuda_on_host {

// A lane ends: those that waited for it alone go on.
void LeaveWarp(const Thread& thread);

bool SamePlace(const Place& a, const Place& b);

}  // namespace thermocline::cuda_on_host

#endif  // THERMOCLINE_CUDA_ON_HOST_WARP_H_
