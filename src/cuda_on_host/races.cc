#include "cuda_on_host/checker.h"

#include "cuda_on_host/run_state.h"

namespace thermocline::cuda_on_host {
namespace {

// The threads of a grid by number.
unsigned BlockOf(uint32_t thread) {
  return (thread - 1) / run_state.block.num_threads;
}
unsigned IndexOf(uint32_t thread) {
  return (thread - 1) % run_state.block.num_threads;
}
bool IsOfBlock(uint32_t thread) {
  return thread - run_state.block.first < run_state.block.num_threads;
}
// Of a thread of the running block.
unsigned WarpOf(uint32_t thread) {
  return (thread - run_state.block.first) / 32;
}
uint32_t Me() { return run_state.block.first + self->lane.index; }

bool ReliesOn(unsigned block) {
  const BlockSet& known = run_state.relies_on[run_state.block.index];
  return !known.empty() && known[block];
}

bool ReliesOnAllBlocks() {
  const BlockSet& known = run_state.relies_on[run_state.block.index];
  for (const bool one : known) {
    if (!one) return false;
  }
  return !known.empty();
}

bool IsWriteOrdered(const Cell& cell) {
  const uint32_t writer = cell.writer;
  if (writer == 0 || writer == Me()) return true;
  if (!IsOfBlock(writer)) {
    return ReliesOn(BlockOf(writer));
  }
  return cell.write_epoch < self->epoch ||
         (WarpOf(writer) == self->lane.warp &&
          cell.write_warp_epoch < self->warp_epoch);
}

// Reads of this block that the cell remembers, all of them.
bool AreReadsOrdered(const Cell& cell) {
  if (cell.read_epoch < self->epoch) return true;
  if (cell.several_warps) return false;
  return WarpOf(cell.reader) == self->lane.warp &&
         cell.read_warp_epoch < self->warp_epoch;
}

bool IsWriteAfterReads(const Cell& cell) {
  if (cell.reader == 0) return true;
  if (cell.several_blocks) return ReliesOnAllBlocks();
  if (!IsOfBlock(cell.reader)) {
    return ReliesOn(BlockOf(cell.reader));
  }
  const bool alone = !cell.several_lanes && !cell.several_warps;
  return (alone && cell.reader == Me()) || AreReadsOrdered(cell);
}

const char* NameOf(Space space) {
  switch (space) {
    case Space::kShared:
      return "shared";
    case Space::kDevice:
      return "device";
    case Space::kMapped:
      break;
  }
  return "mapped";
}

void CheckRaces(const Cell& cell, AccessKind kind, Space space,
                const void* address) {
  if (kind == AccessKind::kAtomic && cell.atomic) return;
  if (!IsWriteOrdered(cell)) {
    Fault("race on %s memory %p: %s after a write of block %u thread %u",
          NameOf(space), address, kind == AccessKind::kRead ? "read" : "write",
          BlockOf(cell.writer), IndexOf(cell.writer));
  }
  if (kind != AccessKind::kRead && !IsWriteAfterReads(cell)) {
    Fault("race on %s memory %p: write after a read of block %u thread %u",
          NameOf(space), address, BlockOf(cell.reader), IndexOf(cell.reader));
  }
}

void NoteRead(Cell& cell) {
  const uint32_t me = Me();
  if (cell.reader != 0 && !IsOfBlock(cell.reader)) {
    cell.several_blocks = true;
  } else if (cell.reader == 0 || AreReadsOrdered(cell)) {
    cell.several_lanes = cell.several_warps = false;
  } else if (WarpOf(cell.reader) != self->lane.warp) {
    cell.several_warps = true;
  } else if (cell.reader != me) {
    cell.several_lanes = true;
  }
  cell.reader = me;
  cell.read_epoch = self->epoch;
  cell.read_warp_epoch = self->warp_epoch;
}

void NoteWrite(Cell& cell, bool atomic) {
  cell.writer = Me();
  cell.write_epoch = self->epoch;
  cell.write_warp_epoch = self->warp_epoch;
  cell.known = true;
  cell.atomic = atomic;
  cell.reader = 0;
  cell.several_lanes = cell.several_warps = cell.several_blocks = false;
}

// The first access of an operation; of shared memory, of a block.
void BeginRun(Cell& cell, uint32_t run, AccessKind kind, Space space,
              const void* address) {
  if (space != Space::kShared &&
      !IsAfterLastRun(cell, kind != AccessKind::kRead)) {
    Fault(
        "race on %s memory %p: %s with nothing that orders it after "
        "another stream's operation",
        NameOf(space), address, kind == AccessKind::kRead ? "read" : "write");
  }
  const bool known = space != Space::kShared && cell.known;
  cell = Cell{};
  cell.run = run;
  cell.known = known;
}

}  // namespace

bool IsAfterLastRun(const Cell& cell, bool write) {
  if (cell.run == 0 || (!write && cell.writer == 0)) return true;
  return run_state.clock.Knows(run_state.stamps[cell.run]);
}

void TouchCells(Cell* cells, size_t count, AccessKind kind, Space space,
                const void* address) {
  const uint32_t run =
      space == Space::kShared ? run_state.block.run : run_state.run;
  for (size_t i = 0; i < count; ++i) {
    Cell& cell = cells[i];
    if (cell.run != run) BeginRun(cell, run, kind, space, address);
    // The host writes mapped memory unseen.
    if (kind != AccessKind::kWrite && !cell.known && space != Space::kMapped) {
      Fault("reads %s memory that nothing wrote, %p", NameOf(space), address);
    }
    CheckRaces(cell, kind, space, address);
    if (kind == AccessKind::kRead) {
      NoteRead(cell);
    } else {
      NoteWrite(cell, kind == AccessKind::kAtomic);
    }
  }
}

}  // namespace thermocline::cuda_on_host
