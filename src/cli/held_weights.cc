#include "cli/held_weights.h"

#include <fmt/format.h>

#include <limits>

#include "base/log.h"
#include "base/math.h"
#include "base/units.h"

namespace thermocline::cli {

void WarnOfLargeMapping(const gguf::File& file, uint64_t ram_bytes) {
  if (file.held().any() || file.num_file_bytes() <= ram_bytes) return;
  LogWarning(
      "{}: {} are mapped, more than the {} of RAM: parts are read from disk "
      "again for every token",
      file.path(), FormatBytes(file.num_file_bytes()), FormatBytes(ram_bytes));
}

std::string DescribeHeld(const gguf::WeightResidency& held) {
  return fmt::format("{}{}", held.read ? "read" : "mapped",
                     held.lock ? " and locked" : "");
}

std::string DescribePages(const gguf::WeightResidency& held,
                          uint64_t num_file_bytes,
                          const os::HugePageShares& shares) {
  constexpr uint64_t kLargeFileBytes = 64 * kMiB;
  if (num_file_bytes < kLargeFileBytes) return "";
  return fmt::format(", {:.0f} % in huge pages",
                     100 * (held.read ? shares.anonymous : shares.mapped));
}

}  // namespace thermocline::cli
