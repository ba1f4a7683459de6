#include "cuda_on_host/block.h"

#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "cuda_on_host/checker.h"
#include "cuda_on_host/lane.h"
#include "cuda_on_host/run_state.h"

namespace thermocline::cuda_on_host {
namespace {

void JoinBlocks(BlockSet& into, const BlockSet& from) {
  if (from.empty()) return;
  if (into.empty()) into.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i]) into[i] = true;
  }
}

}  // namespace

void RunGrid(const LaunchShape& shape, const KernelCall& call) {
  PrepareChecker();
  run_state.shape = &shape;
  run_state.call = &call;
  run_state.aborted = false;
  run_state.num_accesses = 0;
  run_state.released.clear();
  const unsigned num_blocks = shape.grid.x * shape.grid.y * shape.grid.z;
  run_state.relies_on.assign(num_blocks, {});
  std::vector<unsigned> order(num_blocks);
  std::iota(order.begin(), order.end(), 0u);
  for (unsigned i = num_blocks; run_state.options.seed != 0 && i > 1; --i) {
    std::swap(order[i - 1], order[run_state.dice.Below(i)]);
  }
  for (unsigned i = 0; i < num_blocks && !run_state.aborted; ++i) {
    RunBlock(order[i]);
    if (run_state.options.count_sectors) AddUpSectors();
  }
  run_state.shape = nullptr;
  run_state.call = nullptr;
}

void Fence(const Place& place) {
  if (!IsDropped(place)) self->fenced = true;
}

void BeforeAtomic(const void* address, size_t bytes) {
  // Where threads meet, the order of their coming matters most.
  if (run_state.options.preempt != 0 && run_state.dice.Below(4) == 0) {
    YieldThread();
  }
  CheckAccess(address, bytes, AccessKind::kAtomic, __builtin_return_address(0));
  BlockSet& mine = run_state.relies_on[run_state.block.index];
  if (mine.empty()) {
    mine.resize(run_state.relies_on.size());
    mine[run_state.block.index] = true;
  }
  BlockSet& word = run_state.released[address];
  if (self->fenced) JoinBlocks(word, mine);
  JoinBlocks(mine, word);
}

uint32_t LoadAcquire(const uint32_t* address) {
  // Only what others do can change what a loop of these sees.
  if (run_state.options.preempt != 0) YieldThread();
  CheckAccess(address, sizeof *address, AccessKind::kAtomic,
              __builtin_return_address(0));
  return __atomic_load_n(address, __ATOMIC_ACQUIRE);
}

void StoreRelease(uint32_t* address, uint32_t value) {
  CheckAccess(address, sizeof *address, AccessKind::kAtomic,
              __builtin_return_address(0));
  __atomic_store_n(address, value, __ATOMIC_RELEASE);
}

void CopyAsync(void* to, const void* from, size_t bytes) {
  if (bytes != 4 && bytes != 8 && bytes != 16) {
    Fault("an asynchronous copy of %zu bytes; it moves 4, 8 or 16", bytes);
  }
  CheckAccess(from, bytes, AccessKind::kRead, __builtin_return_address(0));
  self->copies.back().push_back({to, from, bytes});
}

void CommitCopies() { self->copies.emplace_back(); }

void WaitForCopies(int keep, const Place& place) {
  if (IsDropped(place)) return;
  auto& copies = self->copies;
  while (static_cast<int>(copies.size()) - 1 > keep) {
    for (const AsyncCopy& copy : copies.front()) {
      CheckAccess(copy.to, copy.bytes, AccessKind::kWrite,
                  __builtin_return_address(0));
      std::memcpy(copy.to, copy.from, copy.bytes);
    }
    copies.erase(copies.begin());
  }
}

}  // namespace thermocline::cuda_on_host
