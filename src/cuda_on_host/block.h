// A launch's parts: the block whose threads run, in an order from the seed, and
// its warps, where lanes meet.
#ifndef THERMOCLINE_CUDA_ON_HOST_BLOCK_H_
#define THERMOCLINE_CUDA_ON_HOST_BLOCK_H_

#include <cstddef>

#include "cuda_on_host/run_state.h"

namespace thermocline::cuda_on_host {

constexpr size_t kMaxSharedBytes = 48 << 10;  // that any card has unasked
constexpr unsigned kMaxBlockThreads = 1024;

// Runs all threads to their end, or to the first fault.
void RunBlock(unsigned index);

// Inside: everyone who has not left stands at the barrier, so all go on.
void ReleaseBarrierIfFull();
void Wake(Thread& thread);
// Whether the test drops this barrier, wait or fence; notes that it was there.
bool IsDropped(const Place& place);

// A lane ends: those of its warp that waited for it alone go on.
void LeaveWarp(const Thread& thread);

bool SamePlace(const Place& a, const Place& b);

}  // namespace thermocline::cuda_on_host

#endif  // THERMOCLINE_CUDA_ON_HOST_BLOCK_H_
