#include "os/memory_policy.h"

#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/units.h"

namespace thermocline::os {
namespace {

constexpr size_t kStepBytes = size_t{64} << 20;  // between two reports

Error CannotLock(size_t num_bytes, int error_number) {
  const std::optional<uint64_t> limit = ReadLockLimit().num_bytes;
  if ((error_number != ENOMEM && error_number != EPERM) || !limit) {
    return {ErrorCode::kResourceExhausted,
            fmt::format("cannot lock {} in RAM: {}", FormatBytes(num_bytes),
                        std::strerror(error_number))};
  }
  return {ErrorCode::kResourceExhausted,
          fmt::format("cannot lock {} in RAM: RLIMIT_MEMLOCK is {} for all of "
                      "the process (raise it: ulimit -l {})",
                      FormatBytes(num_bytes), FormatBytes(*limit),
                      (num_bytes + kKiB - 1) / kKiB)};
}

using Pieces = std::span<const std::span<const std::byte>>;

// Counts against the limit and touches nothing.
Status Reserve(Pieces pieces, size_t num_bytes) {
  for (const std::span<const std::byte> piece : pieces) {
    if (piece.empty()) continue;
    if (mlock2(piece.data(), piece.size(), MLOCK_ONFAULT) != 0) {
      return tl::unexpected(CannotLock(num_bytes, errno));
    }
  }
  return {};
}

// Reads in what Reserve promised to lock.
Status Populate(Pieces pieces, size_t num_bytes, const ProgressFn& progress) {
  size_t num_done = 0;
  for (const std::span<const std::byte> piece : pieces) {
    for (size_t begin = 0; begin < piece.size(); begin += kStepBytes) {
      const size_t size = std::min(kStepBytes, piece.size() - begin);
      if (mlock2(piece.data() + begin, size, 0) != 0) {
        return Fail(ErrorCode::kIo, "cannot lock bytes {} to {} in RAM: {}",
                    begin, begin + size, std::strerror(errno));
      }
      num_done += size;
      ReportProgress(progress, "locking weights", num_done, num_bytes);
    }
  }
  return {};
}

bool MayLockAnything() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct capabilities[_LINUX_CAPABILITY_U32S_3] = {};
  return syscall(SYS_capget, &header, capabilities) == 0 &&
         (capabilities[0].effective & (1u << CAP_IPC_LOCK)) != 0;
}

}  // namespace

LockLimit ReadLockLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 ||
      limit.rlim_cur == RLIM_INFINITY) {
    return {};
  }
  return {.num_bytes = limit.rlim_cur, .is_privileged = MayLockAnything()};
}

Status LockMemory(Pieces pieces, const ProgressFn& progress) {
  size_t num_bytes = 0;
  for (const auto piece : pieces) num_bytes += piece.size();
  Status status = Reserve(pieces, num_bytes);
  if (status) status = Populate(pieces, num_bytes, progress);
  if (status) return {};
  for (const auto piece : pieces) munlock(piece.data(), piece.size());
  return status;
}

}  // namespace thermocline::os
