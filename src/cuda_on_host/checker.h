// Looks at every load and store of a kernel: is the memory the device's, does
// the access stay inside it, is it aligned, has anything been written there,
// and does a barrier, fence or stream order it after what others did there.
//
// __syncthreads orders a block, __syncwarp its warp; shuffles and ballots order
// nothing. Between blocks only a fence and an atomic do. Between operations the
// streams, events and the host's waits do, of which the last one to touch a
// byte is remembered. A first fault ends the launch.
#ifndef THERMOCLINE_CUDA_ON_HOST_CHECKER_H_
#define THERMOCLINE_CUDA_ON_HOST_CHECKER_H_

#include <cstddef>

#include "cuda_on_host/memory.h"

namespace thermocline::cuda_on_host {

enum class AccessKind { kRead, kWrite, kAtomic };

// Of the running CUDA thread; nothing if there is none. `pc` names the place.
void CheckAccess(const void* address, size_t bytes, AccessKind kind,
                 const void* pc);

// The same for a copy or fill that is an operation of its own: order alone, and
// what is written is known from now on. Returns false and sets the fault where
// the range leaves its allocation; memory that is not the device's is the
// host's business.
bool CheckTransfer(const void* address, size_t bytes, bool write);

// Before and after a grid.
void PrepareChecker();
void ForgetLaunch();

}  // namespace thermocline::cuda_on_host

#endif  // THERMOCLINE_CUDA_ON_HOST_CHECKER_H_
