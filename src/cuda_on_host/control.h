// What a test steers and asks of the device that cuda_on_host plays. All of it
// belongs to one process-wide device; call from one thread, and SetOptions and
// ReviveDevice only while no kernel is running.
#ifndef THERMOCLINE_CUDA_ON_HOST_CONTROL_H_
#define THERMOCLINE_CUDA_ON_HOST_CONTROL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace thermocline::cuda_on_host {

struct Options {
  // Of the order of threads and blocks; 0: always the newest thread first.
  uint64_t seed = 1;
  // One access in this many lets another thread in; 0: none does. A kernel that
  // polls a flag needs it.
  unsigned preempt = 0;
  bool count_sectors = false;
  // Of a launch, after which it is taken to wait for what never comes; 0: any
  // number.
  uint64_t max_accesses = 0;
  // Off: kernels run, nothing is found or counted, twice as fast.
  bool check = true;
  // This call of those in Stats::ordering_calls does nothing: a mutant.
  std::string dropped_call;
};

// Memory traffic of some accesses of one kernel to one allocation.
struct Traffic {
  uint64_t requests = 0;  // accesses of whole warps
  uint64_t sectors = 0;   // of 32 bytes that those touched, each counted once
  uint64_t bytes = 0;     // that threads asked for
};

struct Stats {
  uint64_t switches = 0;
  uint64_t accesses = 0;
  // "file:line:column" of the barriers, fences and waits that ran, sorted.
  std::vector<std::string> ordering_calls;
};

// Takes effect with the next launch. Clears the statistics.
void SetOptions(const Options& options);

// What the first kernel to fail did wrong, with kernel, block and thread;
// empty: nothing. Taking it clears it; the device stays failed until
// ReviveDevice.
std::string TakeFault();

// Since SetOptions.
Stats GetStats();

// Traffic of `kernel` (as written in TC_LAUNCH) to the allocation that begins
// at `allocation`, since SetOptions. Needs count_sectors and check.
Traffic GetTraffic(std::string_view kernel, const void* allocation);

// The n-th call of the runtime or launch from now on fails with this error; 0:
// none. Errors of memory and of arguments are the call's alone, others stay.
void FailCall(uint64_t n, int error);

// Drops what is queued, forgets faults and errors. Then streams run in an order
// from the seed: as soon as they can, or, if lazy, only while someone waits,
// which shows a synchronisation that is missing.
void ReviveDevice(uint64_t seed, bool lazy);

// Switches threads by ucontext, slow and portable, instead of our own code.
void UseReferenceSwitch(bool use);

}  // namespace thermocline::cuda_on_host

#endif  // THERMOCLINE_CUDA_ON_HOST_CONTROL_H_
