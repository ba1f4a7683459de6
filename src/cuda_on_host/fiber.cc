#include "cuda_on_host/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TC_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define TC_TSAN 1
#endif
#endif

#ifdef TC_ASAN
extern "C" void __sanitizer_start_switch_fiber(void** fake_stack_save,
                                               const void* bottom, size_t size);
extern "C" void __sanitizer_finish_switch_fiber(void* fake_stack_save,
                                                const void** bottom_old,
                                                size_t* size_old);
extern "C" void __asan_unpoison_memory_region(const volatile void* address,
                                              size_t size);
#endif
#ifdef TC_TSAN
extern "C" void* __tsan_get_current_fiber();
extern "C" void* __tsan_create_fiber(unsigned flags);
extern "C" void __tsan_destroy_fiber(void* fiber);
extern "C" void __tsan_switch_to_fiber(void* fiber, unsigned flags);
#endif

namespace thermocline::cuda_on_host {
namespace {

// Of the OS thread that resumes fibers.
struct Resumer {
  Context context;
  Fiber* running = nullptr;
#ifdef TC_ASAN
  const void* stack = nullptr;
  size_t stack_bytes = 0;
#endif
#ifdef TC_TSAN
  void* thread_sanitizer = nullptr;
#endif
};
thread_local Resumer resumer;

}  // namespace

Fiber::Fiber() {
  void* memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("cuda_on_host: a stack for a CUDA thread");
    std::abort();
  }
  stack_ = static_cast<char*>(memory);
  // Running over the end is a crash, not a change in another thread's stack.
  mprotect(stack_, static_cast<size_t>(getpagesize()), PROT_NONE);
}

Fiber::~Fiber() {
#ifdef TC_TSAN
  if (thread_sanitizer_ != nullptr) __tsan_destroy_fiber(thread_sanitizer_);
#endif
  munmap(stack_, kStackBytes);
}

void Fiber::Restart(void (*entry)()) {
#ifdef TC_ASAN
  __asan_unpoison_memory_region(stack_, kStackBytes);
#endif
#ifdef TC_TSAN
  // The frames that are dropped are still on TSan's own stack of calls.
  if (thread_sanitizer_ != nullptr) __tsan_destroy_fiber(thread_sanitizer_);
  thread_sanitizer_ = __tsan_create_fiber(0);
#endif
  entry_ = entry;
  MakeContext(context_, stack_, kStackBytes, &Fiber::Main);
}

void Fiber::Main() {
#ifdef TC_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &resumer.stack,
                                  &resumer.stack_bytes);
#endif
  resumer.running->entry_();
  std::abort();
}

void Fiber::Resume() {
  resumer.running = this;
#ifdef TC_ASAN
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, stack_, kStackBytes);
#endif
#ifdef TC_TSAN
  resumer.thread_sanitizer = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(thread_sanitizer_, 0);
#endif
  SwitchContext(resumer.context, context_);
#ifdef TC_ASAN
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
}

void Fiber::Leave() {
#ifdef TC_ASAN
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, resumer.stack,
                                 resumer.stack_bytes);
#endif
#ifdef TC_TSAN
  __tsan_switch_to_fiber(resumer.thread_sanitizer, 0);
#endif
  SwitchContext(context_, resumer.context);
#ifdef TC_ASAN
  __sanitizer_finish_switch_fiber(fake_stack, &resumer.stack,
                                  &resumer.stack_bytes);
#endif
}

}  // namespace thermocline::cuda_on_host
