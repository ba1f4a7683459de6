// Memory that must not leave RAM, or is to be of a chosen NUMA node: both of
// what is mapped already, whoever mapped it.
#ifndef THERMOCLINE_OS_MEMORY_POLICY_H_
#define THERMOCLINE_OS_MEMORY_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/progress.h"
#include "base/status.h"

namespace thermocline::os {

// Reads in all pages of these pieces of memory, mapped or anonymous, and locks
// them until they are unmapped. All or nothing: kResourceExhausted where the
// process may not lock as much, before anything is read, with what is needed
// and RLIMIT_MEMLOCK; kIo where a page cannot be had (a file that shrank).
// Takes as long as reading takes; progress counts bytes.
Status LockMemory(std::span<const std::span<const std::byte>> pieces,
                  const ProgressFn& progress = {});

struct LockLimit {
  std::optional<uint64_t> num_bytes;  // RLIMIT_MEMLOCK; nothing: there is none
  // It does not bind this process (CAP_IPC_LOCK; in a container that may be so
  // within it alone).
  bool is_privileged = false;
};
LockLimit ReadLockLimit();

// Pages of `memory` that are touched from now on come from node `node` (the
// kernel's number) while it has room, then from others. Only pages that lie
// wholly inside. kInvalidArgument: there is no such node; kUnsupported: the
// system has no NUMA or does not allow it (containers).
Status PreferNode(std::span<std::byte> memory, int node);

}  // namespace thermocline::os

#endif  // THERMOCLINE_OS_MEMORY_POLICY_H_
