// What is running. One grid runs at a time, on the device's own OS thread, and
// all of this is that thread's; the host writes to it only while the device has
// nothing to do.
#ifndef THERMOCLINE_CUDA_ON_HOST_RUN_STATE_H_
#define THERMOCLINE_CUDA_ON_HOST_RUN_STATE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "cuda_on_host/clock.h"
#include "cuda_on_host/control.h"
#include "cuda_on_host/fiber.h"
#include "cuda_on_host/lane.h"
#include "cuda_on_host/memory.h"

namespace thermocline::cuda_on_host {

using PlaceKey = std::tuple<std::string_view, unsigned, unsigned>;
std::string DescribePlace(const PlaceKey& place);

class Dice {
 public:
  void Seed(uint64_t seed) { state_ = seed * 0x9e3779b97f4a7c15u + 1; }
  // Uniform in [0, n).
  unsigned Below(unsigned n) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<unsigned>((state_ >> 32) * n >> 32);
  }

 private:
  uint64_t state_ = 1;
};

struct AsyncCopy {
  void* to;
  const void* from;
  size_t bytes;
};

enum class ThreadState { kReady, kAtBarrier, kInWarpFunction, kDone };

struct Thread {
  Lane lane;
  ThreadState state = ThreadState::kDone;
  Place place;          // of the barrier or warp function that it waits in
  bool parked = false;  // at its end, waiting to be another thread
  bool fenced = false;
  uint16_t epoch = 0, warp_epoch = 0;
  std::vector<std::vector<AsyncCopy>> copies;  // by commit, the last one open
  Fiber fiber;
};

// Of the lanes of one mask of one warp.
struct Meeting {
  unsigned mask = 0, here = 0;
  WarpFunction function = WarpFunction::kSync;
  Place place;
  // Two, since lanes may meet again before all have looked at the first.
  Exchanged exchanged[2];
  int phase = 0;
};

struct Warp {
  std::vector<std::unique_ptr<Meeting>> meetings;
  unsigned live = 0;  // lanes that have not left
  uint16_t epoch = 0;
};

// The next epoch of a thread or warp; a fault where they run out.
uint16_t NextEpoch(uint16_t epoch);

// The block that is running.
struct Block {
  unsigned index = 0;
  uint32_t run = 0;    // counts all blocks that ever ran
  uint32_t first = 1;  // the number of its first thread
  std::vector<Warp> warps;
  std::vector<unsigned> ready;  // threads
  unsigned num_threads = 0;
  unsigned num_live = 0;
  unsigned num_at_barrier = 0;
  Place barrier;
};

// Which blocks' writes a block may rely on: released by a fence and an atomic,
// taken over by an atomic on the same address. Empty: none but its own.
using BlockSet = std::vector<bool>;

struct RunState {
  Options options;
  Dice dice;
  Stats stats;
  // Of barriers, fences and waits that ran: whether they are dropped.
  std::map<PlaceKey, bool> ordering_calls;
  std::string fault;  // of the current operation

  Allocations allocations;    // as they were when the operation began
  uint32_t run = 0;           // counts operations
  std::vector<Stamp> stamps;  // by run
  Clock clock;                // what the operation may rely on

  const LaunchShape* shape = nullptr;
  const KernelCall* call = nullptr;
  uint64_t num_accesses = 0;  // of the launch
  bool aborted = false;
  Block block;
  std::vector<std::unique_ptr<Thread>> threads;  // kept from launch to launch
  std::vector<BlockSet> relies_on;               // by block
  std::map<const void*, BlockSet> released;      // by address
};

extern RunState run_state;
// The CUDA thread that this OS thread is running; null: none.
extern thread_local Thread* self;

// Hands control to another thread; the caller has to be woken or ready.
void LeaveThread();
// Lets others go first.
void YieldThread();

}  // namespace thermocline::cuda_on_host

#endif  // THERMOCLINE_CUDA_ON_HOST_RUN_STATE_H_
