#include "cli/held_weights.h"

#include <fmt/format.h>

#include <limits>

#include "base/log.h"
#include "base/math.h"
#include "base/units.h"

namespace thermocline::cli {

Status CheckHeldFits(const std::string& path, uint64_t held_bytes,
                     uint64_t session_bytes, uint64_t ram_bytes) {
  if (held_bytes == 0) return {};
  const uint64_t sum = CheckedAdd(held_bytes, session_bytes)
                           .value_or(std::numeric_limits<uint64_t>::max());
  if (sum <= ram_bytes) return {};
  return Fail(ErrorCode::kResourceExhausted,
              "{}: weights in RAM ({}) and a session ({}) need {}, more than "
              "the {} here: leave out --no-mmap and --mlock, or use a smaller "
              "context (-c)",
              path, FormatBytes(held_bytes), FormatBytes(session_bytes),
              FormatBytes(sum), FormatBytes(ram_bytes));
}

void WarnOfLargeMapping(const gguf::File& file, uint64_t ram_bytes) {
  if (file.held().any() || file.num_file_bytes() <= ram_bytes) return;
  LogWarning(
      "{}: {} are mapped, more than the {} of RAM: parts are read from disk "
      "again for every token",
      file.path(), FormatBytes(file.num_file_bytes()), FormatBytes(ram_bytes));
}

std::string DescribeHeld(const gguf::HoldOptions& held) {
  return fmt::format("{}{}", held.read ? "read" : "mapped",
                     held.lock ? " and locked" : "");
}

std::string DescribePages(const gguf::HoldOptions& held,
                          uint64_t num_file_bytes,
                          const os::HugePageShares& shares) {
  constexpr uint64_t kLargeFileBytes = 64 * kMiB;
  if (num_file_bytes < kLargeFileBytes) return "";
  return fmt::format(", {:.0f} % in huge pages",
                     100 * (held.read ? shares.anonymous : shares.mapped));
}

}  // namespace thermocline::cli
