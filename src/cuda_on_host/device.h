// The device behind the runtime's calls: streams of operations, which one OS
// thread runs in an order from a seed. The order on which memory may rely
// (clock.h) is noted when operations are given, so it depends on no timing.
#ifndef THERMOCLINE_CUDA_ON_HOST_DEVICE_H_
#define THERMOCLINE_CUDA_ON_HOST_DEVICE_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cuda_on_host/clock.h"
#include "cuda_on_host/memory.h"
#include "cuda_on_host/run_state.h"
#include "cuda_on_host/shadow/cuda_runtime_api.h"

// The runtime's handles. NOLINTBEGIN(readability-identifier-naming)

struct CUevent_st {
  uint64_t recorded = 0;                   // how often it was asked for
  uint64_t reached = 0;                    // the last of those that happened
  thermocline::cuda_on_host::Clock clock;  // of the last one asked for
  bool has_time = false;
  std::chrono::steady_clock::time_point time;  // of the last that happened
};

// NOLINTEND(readability-identifier-naming)

namespace thermocline::cuda_on_host {

struct Operation {
  std::function<void()> run;  // null: an event alone
  std::shared_ptr<CUevent_st> awaited;
  uint64_t awaited_record = 0;
  std::shared_ptr<CUevent_st> recorded;
  uint64_t record = 0;
  Stamp stamp;
  Clock clock;
};

}  // namespace thermocline::cuda_on_host

// NOLINTBEGIN(readability-identifier-naming)

struct CUgraph_st {
  std::vector<std::function<void()>> runs;
};

struct CUgraphExec_st {
  std::vector<std::function<void()>> runs;
};

struct CUstream_st {
  unsigned index = 0;
  std::deque<thermocline::cuda_on_host::Operation> queue;
  bool busy = false;
  std::unique_ptr<CUgraph_st> capture;
  thermocline::cuda_on_host::Clock clock;  // of what was given so far
};

// NOLINTEND(readability-identifier-naming)

namespace thermocline::cuda_on_host {

class Device {
 public:
  static constexpr size_t kMemoryBytes = size_t{1} << 30;

  static Device& Get();
  ~Device();

  // A call of the runtime begins: an error that it has to return, from FailCall
  // or from before. Holds the lock while `lock` lives.
  cudaError_t Enter(std::unique_lock<std::mutex>& lock);
  // Notes an error for cudaGetLastError, and returns it.
  cudaError_t Return(cudaError_t error);

  // All of the following want the lock.
  CUstream_st* StreamOf(void* handle);
  std::shared_ptr<CUevent_st> EventOf(cudaEvent_t handle);
  // Appends to the stream, or to the graph that it captures into.
  void Give(CUstream_st& stream, std::function<void()> run);
  void Record(CUstream_st& stream, const std::shared_ptr<CUevent_st>& event);
  void Await(CUstream_st& stream, const std::shared_ptr<CUevent_st>& event);
  static bool IsIdle(const CUstream_st& stream) {
    return stream.queue.empty() && !stream.busy;
  }
  // Until `done`, or the device fails; the error then. Lets a lazy device work.
  cudaError_t WaitUntil(std::unique_lock<std::mutex>& lock,
                        const std::function<bool()>& done);
  // The host asked without waiting: a lazy device does one operation.
  void Poke();
  bool AreAllIdle() const;
  void Forget(const Allocation& allocation);

  std::mutex mutex;
  std::vector<std::unique_ptr<CUstream_st>> streams;  // the first: null's
  std::vector<std::shared_ptr<CUevent_st>> events;
  Allocations allocations;
  size_t used_bytes = 0;
  // Freed while the device was failed; gone when it is revived.
  std::vector<void*> released_late;
  Clock host_clock;  // what the host has waited for
  cudaError_t sticky = cudaSuccess, last = cudaSuccess;
  std::string fault;  // the first
  uint64_t num_calls = 0, failing_call = 0;
  cudaError_t call_error = cudaSuccess;
  bool lazy = false;
  Dice dice;
  unsigned num_streams = 0;  // ever

  void Revive(uint64_t seed, bool be_lazy);

 private:
  Device();
  void Work();
  CUstream_st* ChooseStream();
  void RunHead(CUstream_st& stream, std::unique_lock<std::mutex>& lock);
  void Queue(CUstream_st& stream, Operation operation);

  std::condition_variable changed_;
  int num_waiting_ = 0;
  int num_pokes_ = 0;
  bool quit_ = false;
  std::thread worker_;
};

}  // namespace thermocline::cuda_on_host

// How every call of the runtime begins.
//
// `device`, its lock until the call ends, and a return for errors from before.
#define TC_ENTER(device)                                                      \
  auto& device = thermocline::cuda_on_host::Device::Get();                    \
  std::unique_lock<std::mutex> lock;                                          \
  if (const cudaError_t error = (device).Enter(lock); error != cudaSuccess) { \
    return error;                                                             \
  }

// And the stream that a handle stands for.
#define TC_ENTER_WITH_STREAM(device, stream, handle)        \
  TC_ENTER(device)                                          \
  CUstream_st* stream = (device).StreamOf(handle);          \
  if (stream == nullptr) {                                  \
    return (device).Return(cudaErrorInvalidResourceHandle); \
  }

#endif  // THERMOCLINE_CUDA_ON_HOST_DEVICE_H_
