// What `run` tells after generating.
#ifndef THERMOCLINE_CLI_RUN_REPORT_H_
#define THERMOCLINE_CLI_RUN_REPORT_H_

#include <cstdint>
#include <string>

#include "decode/generate.h"
#include "os/memory.h"

namespace thermocline::cli {

// "token limit", "end of text", ...
const char* DescribeStop(decode::StopReason reason);

// Three lines: prompt and generation with their speed (that of passes through
// the model; none without a pass), then the rest.
// bytes_per_token: weights and KV that a generated token reads.
std::string FormatRunSummary(const decode::GenerateReport& report,
                             uint64_t bytes_per_token,
                             const os::ProcessMemory& memory);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_RUN_REPORT_H_
