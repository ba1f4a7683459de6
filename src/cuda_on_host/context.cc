#include "cuda_on_host/fiber.h"

#include <cstdint>

// What a function has to preserve goes onto the stack, then the stack pointers
// change places, and the same registers come back from the other stack.
#if defined(__x86_64__)
#define TC_OWN_SWITCH 1
asm(R"(
.text
.globl tc_switch_stacks
.type tc_switch_stacks,@function
tc_switch_stacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size tc_switch_stacks,.-tc_switch_stacks
)");
#elif defined(__aarch64__)
#define TC_OWN_SWITCH 1
asm(R"(
.text
.globl tc_switch_stacks
.type tc_switch_stacks,@function
tc_switch_stacks:
  sub sp, sp, #160
  stp x19, x20, [sp]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size tc_switch_stacks,.-tc_switch_stacks
)");
#else
#define TC_OWN_SWITCH 0
#endif

#if TC_OWN_SWITCH
// NOLINTNEXTLINE(readability-identifier-naming): a label of assembly.
extern "C" void tc_switch_stacks(void** from, void* to);
#endif

namespace thermocline::cuda_on_host {
namespace {

bool use_reference = TC_OWN_SWITCH == 0;

#if TC_OWN_SWITCH
// A stack as tc_switch_stacks leaves it, which returns into `entry`.
void* NewStack(const char* stack, size_t bytes, void (*entry)()) {
  const auto end = reinterpret_cast<uintptr_t>(stack + bytes) & ~uintptr_t{15};
  void** top = reinterpret_cast<void**>(end);
#if defined(__x86_64__)
  *--top = nullptr;  // a function begins 8 bytes off a multiple of 16
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
#else
  top -= 20;
  for (int i = 0; i < 20; ++i) top[i] = nullptr;
  top[11] = reinterpret_cast<void*>(entry);  // x30
#endif
  return static_cast<void*>(top);
}
#endif

}  // namespace

void UseReferenceContexts(bool use) {
  use_reference = use || TC_OWN_SWITCH == 0;
}

bool UsesReferenceContexts() { return use_reference; }

void MakeContext(Context& context, char* stack, size_t bytes, void (*entry)()) {
#if TC_OWN_SWITCH
  if (!use_reference) {
    context.stack_pointer = NewStack(stack, bytes, entry);
    return;
  }
#endif
  if (!context.reference) context.reference = std::make_unique<ucontext_t>();
  getcontext(context.reference.get());
  context.reference->uc_stack.ss_sp = stack;
  context.reference->uc_stack.ss_size = bytes;
  context.reference->uc_link = nullptr;
  makecontext(context.reference.get(), entry, 0);
}

void SwitchContext(Context& from, Context& to) {
#if TC_OWN_SWITCH
  if (!use_reference) {
    tc_switch_stacks(&from.stack_pointer, to.stack_pointer);
    return;
  }
#endif
  if (!from.reference) from.reference = std::make_unique<ucontext_t>();
  swapcontext(from.reference.get(), to.reference.get());
}

}  // namespace thermocline::cuda_on_host
