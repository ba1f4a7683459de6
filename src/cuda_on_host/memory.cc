#include "cuda_on_host/memory.h"

#include <cstdlib>
#include <cstring>

namespace thermocline::cuda_on_host {
namespace {

constexpr size_t kAlignment = 256;  // cudaMalloc's
// Nothing else lies within this many bytes past the end: what a kernel does
// there is past this allocation, not in the next.
constexpr size_t kGap = 256;

}  // namespace

Allocation::Allocation(size_t num_bytes, bool is_mapped)
    : base(static_cast<char*>(std::aligned_alloc(
          kAlignment,
          (num_bytes + kGap + kAlignment - 1) / kAlignment * kAlignment))),
      bytes(num_bytes),
      mapped(is_mapped),
      cells(std::make_unique<Cell[]>(num_bytes)) {
  std::memset(base, 0xcd, bytes);  // no zero by luck
}

Allocation::~Allocation() { std::free(base); }

Allocation* FindAllocation(const Allocations& allocations, const void* address,
                           bool end_too) {
  const auto a = reinterpret_cast<uintptr_t>(address);
  const auto it =
      end_too ? allocations.lower_bound(a) : allocations.upper_bound(a);
  if (it == allocations.end() || address < it->second->base) return nullptr;
  return it->second.get();
}

}  // namespace thermocline::cuda_on_host
