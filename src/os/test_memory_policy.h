// For tests: the NUMA policy that memory has.
#ifndef THERMOCLINE_OS_TEST_MEMORY_POLICY_H_
#define THERMOCLINE_OS_TEST_MEMORY_POLICY_H_

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

namespace thermocline::os {

// The policy of one address and its nodes as bits, -1 where the system does not
// tell.
inline int PolicyAt(const std::byte* address, unsigned long* nodes) {
  int mode = -1;
  constexpr unsigned long kNumNodes = sizeof(*nodes) * 8;
  const long result =
      syscall(SYS_get_mempolicy, &mode, nodes, kNumNodes, address, MPOL_F_ADDR);
  return result == 0 ? mode : -1;
}

}  // namespace thermocline::os

#endif  // THERMOCLINE_OS_TEST_MEMORY_POLICY_H_
