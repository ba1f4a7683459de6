// What stands behind the names of cuda_on_host.h: calls of the CUDA thread that
// is running. A call made from outside a kernel is a crash.
#ifndef THERMOCLINE_CUDA_ON_HOST_LANE_H_
#define THERMOCLINE_CUDA_ON_HOST_LANE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "cuda_on_host/vector_types.h"

namespace thermocline::cuda_on_host {

// Where a barrier or warp function is called: lanes have to meet at one place.
using Place = std::source_location;

struct Lane {
  uint3 thread, block;
  dim3 block_dim, grid_dim;
  unsigned lane;   // in its warp
  unsigned warp;   // in its block
  unsigned index;  // in its block
};
const Lane& Self();

enum class WarpFunction {
  kSync,
  kShuffle,
  kShuffleXor,
  kShuffleUp,
  kShuffleDown,
  kBallot
};

constexpr size_t kMaxExchange = 16;  // bytes of a lane's value
struct Exchanged {
  unsigned present = 0;  // the lanes that took part
  unsigned char values[32][kMaxExchange];
};

void SyncThreads(const Place& place);
void SyncWarp(unsigned mask, const Place& place);
// The lanes of `mask` that have not left hand in `bytes` and go on together.
void Exchange(unsigned mask, WarpFunction function, const void* value,
              size_t bytes, Exchanged* out, const Place& place);
void Fence(const Place& place);
// Stands before an atomic of the kernel: lets another thread in, and carries
// over what fences released to this address.
void BeforeAtomic(const void* address, size_t bytes);
// On a word of mapped memory that the host reads or writes with the opposite.
uint32_t LoadAcquire(const uint32_t* address);
void StoreRelease(uint32_t* address, uint32_t value);
void* DynamicShared();
// The copy happens at the wait, so that a missing wait is seen.
void CopyAsync(void* to, const void* from, size_t bytes);
void CommitCopies();
void WaitForCopies(int keep, const Place& place);
[[noreturn]] void Fault(const char* format, ...)
    __attribute__((format(printf, 1, 2)));

struct LaunchShape {
  dim3 grid, block;
  size_t shared_bytes = 0;
  void* stream = nullptr;
};

// A kernel with its arguments, ready to run any number of times.
struct KernelCall {
  const char* name;
  const void* parameters;
  size_t parameter_bytes;
  void (*body)(const void* parameters);  // one thread
};
// Runs the grid at once, on this OS thread.
void RunGrid(const LaunchShape& shape, const KernelCall& call);
// Appends to the stream; an error is the next cudaGetLastError.
void EnqueueLaunch(const LaunchShape& shape, std::function<void()> run);

template <typename... Parameters, typename... Arguments>
void Launch(const char* name, void (*kernel)(Parameters...),
            const LaunchShape& shape, Arguments&&... arguments) {
  struct Call {
    void (*kernel)(Parameters...);
    std::tuple<Parameters...> arguments;
  };
  Call call{kernel,
            std::tuple<Parameters...>(std::forward<Arguments>(arguments)...)};
  // Templates stand in parentheses in TC_LAUNCH.
  std::string kernel_name = name;
  if (kernel_name.starts_with('(')) {
    kernel_name = kernel_name.substr(1, kernel_name.size() - 2);
  }
  EnqueueLaunch(shape, [shape, kernel_name, call] {
    RunGrid(shape, {kernel_name.c_str(), &call, sizeof call,
                    [](const void* parameters) {
                      const auto& c = *static_cast<const Call*>(parameters);
                      std::apply(c.kernel, c.arguments);
                    }});
  });
}

// IEEE binary16, exact; and back, to nearest, ties to even.
float HalfToFloat(uint16_t half);
uint16_t FloatToHalf(float value);

template <typename T>
T Shuffle(unsigned mask, T value, unsigned from, WarpFunction function,
          const Place& place) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kMaxExchange);
  Exchanged all;
  Exchange(mask, function, &value, sizeof value, &all, place);
  if ((all.present >> from & 1) == 0) {
    Fault("shuffle reads lane %u, which takes no part", from);
  }
  std::memcpy(&value, all.values[from], sizeof value);
  return value;
}

}  // namespace thermocline::cuda_on_host

#endif  // THERMOCLINE_CUDA_ON_HOST_LANE_H_
