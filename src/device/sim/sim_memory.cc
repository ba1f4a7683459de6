#include "device/sim/sim_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>

#include "base/check.h"
#include "base/units.h"

namespace thermocline::device {
namespace {

constexpr std::align_val_t kBufferAlignment{256};

uintptr_t AddressOf(const void* data) {
  return reinterpret_cast<uintptr_t>(data);
}

// Null: the system has none.
std::byte* MapUnbacked(size_t num_bytes) {
  void* data = mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
}

std::byte* NewPoisoned(size_t num_bytes) {
  void* data = ::operator new(num_bytes, kBufferAlignment, std::nothrow);
  if (data != nullptr) std::memset(data, SimMemory::kPoison, num_bytes);
  return static_cast<std::byte*>(data);
}

}  // namespace

SimMemory::~SimMemory() {
  // A device outlives its buffers.
  TC_CHECK(blocks_.empty());
}

Result<std::byte*> SimMemory::Allocate(size_t num_bytes, MemoryKind kind,
                                       std::string_view what) {
  if (num_bytes == 0) return nullptr;
  Sums& sums = sums_[static_cast<size_t>(kind)];
  const uint64_t free = device_bytes_ - of(MemoryKind::kDevice).allocated_bytes;
  if (kind == MemoryKind::kDevice && num_bytes > free) {
    return Fail(ErrorCode::kResourceExhausted,
                "{} needs {} ({} bytes) of the device's memory, of which {} "
                "({} bytes) is free",
                what, FormatBytes(num_bytes), num_bytes, FormatBytes(free),
                free);
  }
  std::byte* data =
      holds_data_ ? NewPoisoned(num_bytes) : MapUnbacked(num_bytes);
  if (data == nullptr) {
    return Fail(ErrorCode::kResourceExhausted,
                "{} needs {} ({} bytes), which the host's memory does not have",
                what, FormatBytes(num_bytes), num_bytes);
  }
  blocks_.emplace(AddressOf(data), Block{num_bytes, kind});
  sums.allocated_bytes += num_bytes;
  sums.peak_bytes = std::max(sums.peak_bytes, sums.allocated_bytes);
  return data;
}

void SimMemory::Free(MemoryKind kind, std::byte* data, size_t num_bytes) {
  const auto found = blocks_.find(AddressOf(data));
  TC_CHECK(found != blocks_.end() && found->second.num_bytes == num_bytes &&
           found->second.kind == kind);
  blocks_.erase(found);
  sums_[static_cast<size_t>(kind)].allocated_bytes -= num_bytes;
  if (holds_data_) {
    ::operator delete(data, kBufferAlignment);
  } else {
    munmap(data, num_bytes);
  }
}

std::optional<SimMemory::Place> SimMemory::Find(const void* data) const {
  auto next = blocks_.upper_bound(AddressOf(data));
  if (next == blocks_.begin()) return std::nullopt;
  const auto& [begin, block] = *std::prev(next);
  const uintptr_t offset = AddressOf(data) - begin;
  if (offset >= block.num_bytes) return std::nullopt;
  return Place{.kind = block.kind, .num_bytes = block.num_bytes - offset};
}

bool SimMemory::MeetsBuffer(const void* data, size_t num_bytes) const {
  const auto next = blocks_.lower_bound(AddressOf(data));
  return next != blocks_.end() && next->first - AddressOf(data) < num_bytes;
}

}  // namespace thermocline::device
