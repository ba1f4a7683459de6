// Memory that must not leave RAM.
#ifndef THERMOCLINE_OS_MEMORY_LOCK_H_
#define THERMOCLINE_OS_MEMORY_LOCK_H_

#include <cstddef>
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

}  // namespace thermocline::os

#endif  // THERMOCLINE_OS_MEMORY_LOCK_H_
