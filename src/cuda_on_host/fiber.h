// Stacks of their own, and the switches between them.
#ifndef THERMOCLINE_CUDA_ON_HOST_FIBER_H_
#define THERMOCLINE_CUDA_ON_HOST_FIBER_H_

#include <ucontext.h>

#include <cstddef>
#include <memory>

namespace thermocline::cuda_on_host {

// A stack and where it stopped, and the switch from one to another: a few
// instructions on x86-64 and aarch64, ucontext elsewhere and as the reference.
struct Context {
  void* stack_pointer = nullptr;
  std::unique_ptr<ucontext_t> reference;  // if that was used
};

// The next switch to `context` calls `entry`, which never returns.
void MakeContext(Context& context, char* stack, size_t bytes, void (*entry)());
void SwitchContext(Context& from, Context& to);

// For contexts made from now on; none made before may be switched to.
void UseReferenceContexts(bool use);
bool UsesReferenceContexts();

// A stack of its own that runs until it hands control back. Sanitizers are told
// of every switch.
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
