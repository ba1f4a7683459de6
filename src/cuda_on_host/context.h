// A stack and where it stopped, and the switch from one to another: a few
// instructions on x86-64 and aarch64, ucontext elsewhere and as the reference.
#ifndef THERMOCLINE_CUDA_ON_HOST_CONTEXT_H_
#define THERMOCLINE_CUDA_ON_HOST_CONTEXT_H_

#include <ucontext.h>

#include <cstddef>
#include <memory>

namespace thermocline::cuda_on_host {

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

}  // namespace thermocline::cuda_on_host

#endif  // THERMOCLINE_CUDA_ON_HOST_CONTEXT_H_
