// The device's memory, with a shadow for every byte.
#ifndef THERMOCLINE_CUDA_ON_HOST_MEMORY_H_
#define THERMOCLINE_CUDA_ON_HOST_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

namespace thermocline::cuda_on_host {

// Who touched a byte last, as far as it takes to find a race. Threads are their
// number in the grid + 1; 0: none. Epochs count what __syncthreads and
// __syncwarp have ordered.
struct Cell {
  uint32_t run = 0;  // the operation, of shared memory the block, told of below
  uint32_t writer = 0;
  uint32_t reader = 0;
  uint16_t write_epoch = 0, write_warp_epoch = 0;
  uint16_t read_epoch = 0, read_warp_epoch = 0;
  bool several_lanes : 1 = false;   // of the reader's warp have read since
  bool several_warps : 1 = false;   // of the reader's block
  bool several_blocks : 1 = false;  // in this operation
  bool known : 1 = false;           // something wrote it
  bool atomic : 1 = false;          // and the last write was atomic
};

struct Allocation {
  char* base;
  size_t bytes;
  bool mapped;  // the host's as well
  std::unique_ptr<Cell[]> cells;

  Allocation(size_t num_bytes, bool is_mapped);
  ~Allocation();
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;
};

// Allocations by the address of their end.
using Allocations = std::map<uintptr_t, std::shared_ptr<Allocation>>;

// The allocation that `address` lies in, or its end if `end_too`; null: none.
Allocation* FindAllocation(const Allocations& allocations, const void* address,
                           bool end_too = false);

}  // namespace thermocline::cuda_on_host

#endif  // THERMOCLINE_CUDA_ON_HOST_MEMORY_H_
