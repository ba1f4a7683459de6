// Runs the threads of one block, in an order from the seed.
#ifndef THERMOCLINE_CUDA_ON_HOST_BLOCK_H_
#define THERMOCLINE_CUDA_ON_HOST_BLOCK_H_

#include "cuda_on_host/run_state.h"

namespace thermocline::cuda_on_host {

// To its end, or to the first fault.
void RunBlock(unsigned index);

// Inside: everyone who has not left stands at the barrier, so all go on.
void ReleaseBarrierIfFull();
void Wake(Thread& thread);
// Whether the test drops this barrier, wait or fence; notes that it was there.
bool IsDropped(const Place& place);

}  // namespace thermocline::cuda_on_host

#endif  // THERMOCLINE_CUDA_ON_HOST_BLOCK_H_
