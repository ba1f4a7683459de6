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
#include <string_view>

#include "cuda_on_host/control.h"
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

// Races on one byte, from its shadow cell.

enum class Space { kShared, kDevice, kMapped };

// The cells of one access of the running thread: a fault, or they know of it.
void TouchCells(Cell* cells, size_t count, AccessKind kind, Space space,
                const void* address);

// Whether the operation that runs may rely on the end of the one that last
// touched this cell.
bool IsAfterLastRun(const Cell& cell, bool write);

// What warps move: 32-byte sectors per access of a warp, which is what a GPU's
// memory is asked for.

// An access of the running thread. The n-th access of a lane at one place goes
// with the n-th of the other lanes of its warp.
void CountSectors(const void* pc, const void* allocation, const void* address,
                  size_t bytes);
// The block is done: what its warps did is added up.
void AddUpSectors();

Traffic TrafficOf(std::string_view kernel, const void* allocation);
void ClearTraffic();

}  // namespace thermocline::cuda_on_host

#endif  // THERMOCLINE_CUDA_ON_HOST_CHECKER_H_
