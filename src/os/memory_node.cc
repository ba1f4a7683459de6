#include "os/memory_policy.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>

#include "base/math.h"

namespace thermocline::os {
namespace {

constexpr size_t kMaxNodes = 1024;  // the kernel's own bound
constexpr size_t kMaskBits = sizeof(unsigned long) * CHAR_BIT;

}  // namespace

Status PreferNode(std::span<std::byte> memory, int node) {
  if (node < 0 || static_cast<size_t>(node) >= kMaxNodes) {
    return Fail(ErrorCode::kInvalidArgument, "there is no NUMA node {}", node);
  }
  const auto page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(memory.data());
  const uintptr_t begin = RoundUp(address, page_bytes);
  const uintptr_t end = (address + memory.size()) / page_bytes * page_bytes;
  if (begin >= end) return {};
  std::array<unsigned long, kMaxNodes / kMaskBits> mask = {};
  const auto bit = static_cast<size_t>(node);
  mask[bit / kMaskBits] = 1ul << bit % kMaskBits;
  // The kernel takes one bit less than it is told.
  if (syscall(SYS_mbind, begin, end - begin, MPOL_PREFERRED, mask.data(),
              kMaxNodes + 1, 0u) == 0) {
    return {};
  }
  return Fail(
      errno == EINVAL ? ErrorCode::kInvalidArgument : ErrorCode::kUnsupported,
      "cannot place memory on NUMA node {}: {}", node, std::strerror(errno));
}

}  // namespace thermocline::os
