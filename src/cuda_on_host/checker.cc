#include "cuda_on_host/checker.h"

#include <link.h>

#include <cstdint>
#include <iterator>
#include <memory>
#include <vector>

#include "cuda_on_host/block.h"
#include "cuda_on_host/run_state.h"

namespace thermocline::cuda_on_host {
namespace {

struct Range {
  const char* begin = nullptr;
  const char* end = nullptr;
  bool Has(const char* a) const { return a >= begin && a < end; }
};

Range image;          // the program: constants and tables
Range thread_locals;  // of the device's OS thread: static shared memory
alignas(128) char dynamic_shared[kMaxSharedBytes];
std::vector<Cell> thread_local_cells, dynamic_cells;

// dl_iterate_phdr tells of the program first.
int FindProgram(dl_phdr_info* info, size_t, void*) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    const char* at =
        reinterpret_cast<const char*>(info->dlpi_addr + header.p_vaddr);
    if (header.p_type == PT_LOAD) {
      if (image.begin == nullptr) image.begin = at;
      image.end = at + header.p_memsz;
    } else if (header.p_type == PT_TLS) {
      thread_locals.begin = static_cast<const char*>(info->dlpi_tls_data);
      thread_locals.end = thread_locals.begin + header.p_memsz;
    }
  }
  return 1;
}

// What a thread has for itself: its stack, its number, its arguments.
bool IsOwn(const char* a, size_t bytes, bool write) {
  if (self->fiber.Owns(a)) return true;
  const auto* lane = reinterpret_cast<const char*>(&self->lane);
  if (a >= lane && a < lane + sizeof(Lane)) return true;
  const auto* parameters = static_cast<const char*>(run_state.call->parameters);
  return !write && a >= parameters &&
         a + bytes <= parameters + run_state.call->parameter_bytes;
}

void CheckShared(const char* a, size_t bytes, AccessKind kind) {
  if (thread_locals.Has(a)) {
    return TouchCells(&thread_local_cells[size_t(a - thread_locals.begin)],
                      bytes, kind, Space::kShared, a);
  }
  const char* end = dynamic_shared + run_state.shape->shared_bytes;
  if (a + bytes > end) {
    Fault("%zu bytes past the %zu bytes of dynamic shared memory",
          size_t(a + bytes - end), run_state.shape->shared_bytes);
  }
  TouchCells(&dynamic_cells[size_t(a - dynamic_shared)], bytes, kind,
             Space::kShared, a);
}

[[noreturn]] void FaultOutside(const char* a, const char* verb) {
  const auto next =
      run_state.allocations.upper_bound(reinterpret_cast<uintptr_t>(a));
  if (next == run_state.allocations.begin()) {
    Fault("%s %p, which is not the device's", verb, a);
  }
  const Allocation& before = *std::prev(next)->second;
  Fault("%s %p, which is not the device's: %td bytes past an allocation of %zu",
        verb, a, a - (before.base + before.bytes), before.bytes);
}

void CheckDevice(const char* a, size_t bytes, AccessKind kind, const void* pc) {
  const char* verb = kind == AccessKind::kRead ? "reads" : "writes";
  Allocation* allocation = FindAllocation(run_state.allocations, a);
  if (allocation == nullptr) FaultOutside(a, verb);
  if (a + bytes > allocation->base + allocation->bytes) {
    Fault("%s past the end of an allocation of %zu bytes", verb,
          allocation->bytes);
  }
  if (run_state.options.count_sectors) {
    CountSectors(pc, allocation->base, a, bytes);
  }
  TouchCells(&allocation->cells[size_t(a - allocation->base)], bytes, kind,
             allocation->mapped ? Space::kMapped : Space::kDevice, a);
}

}  // namespace

void CheckAccess(const void* address, size_t bytes, AccessKind kind,
                 const void* pc) {
  if (self == nullptr || !run_state.options.check) return;
  const auto* a = static_cast<const char*>(address);
  if (IsOwn(a, bytes, kind != AccessKind::kRead)) return;
  const Options& options = run_state.options;
  ++run_state.stats.accesses;
  ++run_state.num_accesses;
  if (options.max_accesses != 0 &&
      run_state.num_accesses > options.max_accesses) {
    Fault("has used up its %llu accesses: does it wait for what never comes?",
          static_cast<unsigned long long>(options.max_accesses));
  }
  if (reinterpret_cast<uintptr_t>(a) % bytes != 0) {
    Fault("an access of %zu bytes at %p is not aligned", bytes, address);
  }
  if (options.preempt != 0 && run_state.dice.Below(options.preempt) == 0) {
    YieldThread();
  }
  if (thread_locals.Has(a) ||
      (a >= dynamic_shared && a < dynamic_shared + sizeof dynamic_shared)) {
    return CheckShared(a, bytes, kind);
  }
  if (kind == AccessKind::kRead && image.Has(a)) return;
  CheckDevice(a, bytes, kind, pc);
}

bool CheckTransfer(const void* address, size_t bytes, bool write) {
  Allocation* allocation = FindAllocation(run_state.allocations, address);
  if (allocation == nullptr || bytes == 0 || !run_state.options.check) {
    return true;
  }
  const auto begin =
      size_t(static_cast<const char*>(address) - allocation->base);
  if (begin + bytes > allocation->bytes) {
    run_state.fault = "a copy or fill of " + std::to_string(bytes) +
                      " bytes leaves an allocation of " +
                      std::to_string(allocation->bytes);
    return false;
  }
  for (size_t i = begin; i < begin + bytes; ++i) {
    Cell& cell = allocation->cells[i];
    if (!IsAfterLastRun(cell, write)) {
      run_state.fault =
          "a copy or fill with nothing that orders it after another stream's "
          "operation on the same memory";
      return false;
    }
    const bool known = cell.known || write;
    cell = Cell{};
    cell.run = run_state.run;
    cell.known = known;
    (write ? cell.writer : cell.reader) = 1;
  }
  return true;
}

void PrepareChecker() {
  if (thread_locals.begin != nullptr) return;
  dl_iterate_phdr(FindProgram, nullptr);
  thread_local_cells.resize(size_t(thread_locals.end - thread_locals.begin));
  dynamic_cells.resize(sizeof dynamic_shared);
}

void* DynamicShared() { return dynamic_shared; }

void CopyVector(void* to, const void* from, size_t bytes, const void* pc) {
  CheckAccess(from, bytes, AccessKind::kRead, pc);
  CheckAccess(to, bytes, AccessKind::kWrite, pc);
  std::memcpy(to, from, bytes);
}

}  // namespace thermocline::cuda_on_host

// What clang calls before each load and store of a file that it compiles with
// -fsanitize-coverage=func,trace-loads,trace-stores.
// NOLINTBEGIN(readability-identifier-naming)
#define TC_TRACE(n)                                                \
  extern "C" void __sanitizer_cov_load##n(void* address) {         \
    thermocline::cuda_on_host::CheckAccess(                        \
        address, n, thermocline::cuda_on_host::AccessKind::kRead,  \
        __builtin_return_address(0));                              \
  }                                                                \
  extern "C" void __sanitizer_cov_store##n(void* address) {        \
    thermocline::cuda_on_host::CheckAccess(                        \
        address, n, thermocline::cuda_on_host::AccessKind::kWrite, \
        __builtin_return_address(0));                              \
  }
TC_TRACE(1)
TC_TRACE(2)
TC_TRACE(4)
TC_TRACE(8)
TC_TRACE(16)
// NOLINTEND(readability-identifier-naming)
