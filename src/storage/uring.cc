#include "storage/uring.h"

#ifdef TC_LIBURING

#include <sys/uio.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "base/units.h"
#include "os/memory_policy.h"

namespace thermocline::storage {
namespace {

std::string ReasonOf(int error_number) {
  return std::generic_category().message(error_number);
}

Status Refused(int error_number) {
  const std::string reason = ReasonOf(error_number);
  switch (error_number) {
    case ENOSYS:
      return Fail(ErrorCode::kUnsupported,
                  "io_uring: {}: the kernel has none, or a sandbox hides it",
                  reason);
    case EPERM:
    case EACCES:
      return Fail(
          ErrorCode::kUnsupported,
          "io_uring: {}: switched off (sysctl kernel.io_uring_disabled) "
          "or not for containers",
          reason);
    case ENOMEM:
      return Fail(ErrorCode::kResourceExhausted,
                  "io_uring: {}: kernels before 5.12 lock its rings in memory, "
                  "of which this user may lock too little (ulimit -l)",
                  reason);
    default:
      return Fail(ErrorCode::kUnsupported, "io_uring: {}", reason);
  }
}

tl::unexpected<Error> TooLittleLocked(uint64_t limit) {
  return Fail(ErrorCode::kResourceExhausted, "RLIMIT_MEMLOCK {}",
              FormatBytes(limit));
}

}  // namespace

Uring::~Uring() {
  if (!is_open_) return;
  // At once: what ends with the ring the kernel does later, and counts against
  // the limit until then.
  if (!memory_.pieces().empty()) io_uring_unregister_buffers(&ring_);
  io_uring_queue_exit(&ring_);
}

Status Uring::Open(size_t depth) {
  const int error =
      io_uring_queue_init(static_cast<unsigned>(depth), &ring_, 0);
  if (error < 0) return Refused(-error);
  is_open_ = true;
  io_uring_probe* probe = io_uring_get_probe_ring(&ring_);
  const bool reads =
      probe != nullptr && io_uring_opcode_supported(probe, IORING_OP_READ) != 0;
  if (probe != nullptr) io_uring_free_probe(probe);
  if (reads) return {};
  return Fail(ErrorCode::kUnsupported,
              "io_uring: this kernel's cannot read: it is older than 5.6");
}

void Uring::RegisterFiles(const std::vector<OpenFile>& files) {
  std::vector<int> fds;
  for (const OpenFile& file : files) fds.push_back(file.fd.get());
  has_files_ = !fds.empty() &&
               io_uring_register_files(&ring_, fds.data(),
                                       static_cast<unsigned>(fds.size())) == 0;
}

Status Uring::RegisterMemory(std::span<const std::span<std::byte>> ranges) {
  FixedMemory memory(ranges);
  const os::LockLimit limit = os::ReadLockLimit();
  const bool is_too_much =
      limit.num_bytes && *limit.num_bytes < memory.num_bytes();
  // The kernel would fetch up to 1 GiB of pages before it looks at the limit.
  if (is_too_much && !limit.is_privileged) {
    return TooLittleLocked(*limit.num_bytes);
  }
  std::vector<iovec> pieces;
  for (const std::span<std::byte>& piece : memory.pieces()) {
    pieces.push_back({piece.data(), piece.size()});
  }
  const int error = io_uring_register_buffers(
      &ring_, pieces.data(), static_cast<unsigned>(pieces.size()));
  if (error == 0) {
    memory_ = std::move(memory);
    return {};
  }
  // Others of this user's count too, and privileges of a container do not.
  if (error == -ENOMEM && limit.num_bytes) {
    return TooLittleLocked(*limit.num_bytes);
  }
  return Fail(error == -ENOMEM ? ErrorCode::kResourceExhausted
                               : ErrorCode::kUnsupported,
              "{}", ReasonOf(-error));
}

bool Uring::PrepareRead(io_uring_sqe* sqe, const OpenFile& file,
                        uint32_t file_idx, const ReadSteps::Call& call) const {
  const int fd = has_files_ ? static_cast<int>(file_idx) : file.fd.get();
  const auto num_bytes = static_cast<unsigned>(call.num_bytes);
  const auto piece = memory_.Find(call.to, call.num_bytes);
  if (piece) {
    io_uring_prep_read_fixed(sqe, fd, call.to, num_bytes, call.offset, *piece);
  } else {
    io_uring_prep_read(sqe, fd, call.to, num_bytes, call.offset);
  }
  // From the page cache the kernel would copy before it returns, with the
  // caller's lock held.
  sqe->flags |= (has_files_ ? IOSQE_FIXED_FILE : 0u) |
                (file.is_direct() ? 0u : IOSQE_ASYNC);
  return piece.has_value();
}

}  // namespace thermocline::storage

#endif
