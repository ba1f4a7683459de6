// A stack of its own that runs until it hands control back. Sanitizers are told
// of every switch.
#ifndef THERMOCLINE_CUDA_ON_HOST_FIBER_H_
#define THERMOCLINE_CUDA_ON_HOST_FIBER_H_

#include <cstddef>

#include "cuda_on_host/context.h"

namespace thermocline::cuda_on_host {

class Fiber {
 public:
  static constexpr size_t kStackBytes = 64 << 10;

  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Forgets where it stopped: the next Resume calls `entry`, which must never
  // return. Destructors of the frames that were there do not run.
  void Restart(void (*entry)());
  // Runs it until it calls Leave. From a thread's own stack only.
  void Resume();
  // Back to where Resume was called. Only from the fiber that is running.
  void Leave();

  bool Owns(const void* address) const {
    const auto* a = static_cast<const char*>(address);
    return a >= stack_ && a < stack_ + kStackBytes;
  }

 private:
  static void Main();

  char* stack_;
  Context context_;
  void (*entry_)() = nullptr;
  [[maybe_unused]] void* thread_sanitizer_ = nullptr;  // TSan's fiber
};

}  // namespace thermocline::cuda_on_host

#endif  // THERMOCLINE_CUDA_ON_HOST_FIBER_H_
