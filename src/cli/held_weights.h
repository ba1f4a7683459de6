// Weights that stay in RAM, or do not: the words for it.
#ifndef THERMOCLINE_CLI_HELD_WEIGHTS_H_
#define THERMOCLINE_CLI_HELD_WEIGHTS_H_

#include <cstdint>
#include <string>

#include "base/status.h"
#include "gguf/gguf.h"
#include "os/memory.h"

namespace thermocline::cli {

// Warns of a mapping that is larger than the RAM: it works, at the speed of the
// disk.
void WarnOfLargeMapping(const gguf::File& file,
                        uint64_t ram_bytes = os::ReadMemoryInfo().total_bytes);

// "mapped", "mapped and locked", "read", "read and locked".
std::string DescribeHeld(const gguf::WeightResidency& held);

// ", 98 % in huge pages"; empty for files of less than 64 MiB. `shares`: when
// the weights have been in use, since they are most of what this process has
// touched.
std::string DescribePages(const gguf::WeightResidency& held,
                          uint64_t num_file_bytes,
                          const os::HugePageShares& shares);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_HELD_WEIGHTS_H_
