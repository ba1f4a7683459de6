// Finds races on one byte from its shadow cell.
#ifndef THERMOCLINE_CUDA_ON_HOST_RACES_H_
#define THERMOCLINE_CUDA_ON_HOST_RACES_H_

#include <cstddef>

#include "cuda_on_host/checker.h"
#include "cuda_on_host/memory.h"

namespace thermocline::cuda_on_host {

enum class Space { kShared, kDevice, kMapped };

// The cells of one access of the running thread: a fault, or they know of it.
void TouchCells(Cell* cells, size_t count, AccessKind kind, Space space,
                const void* address);

// Whether the operation that runs may rely on the end of the one that last
// touched this cell.
bool IsAfterLastRun(const Cell& cell, bool write);

}  // namespace thermocline::cuda_on_host

#endif  // THERMOCLINE_CUDA_ON_HOST_RACES_H_
