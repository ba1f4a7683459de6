// What `run` tells after generating.
#ifndef THERMOCLINE_CLI_RUN_REPORT_H_
#define THERMOCLINE_CLI_RUN_REPORT_H_

#include <cstdint>
#include <string>

#include "decode/generate.h"
#include "engine/stream/stream_options.h"
#include "gguf/gguf.h"
#include "os/memory.h"

namespace thermocline::cli {

// "token limit", "end of text", ...
const char* DescribeStop(decode::StopReason reason);

// Weights and KV that a generated token reads.
struct TokenBytes {
  uint64_t count = 0;
  bool is_bound = false;   // sparse, and nothing was counted
  bool of_graphs = false;  // as static graphs have them, not as the file has
};

// What a run takes of the RAM. A session allocates everything at its start, so
// that the end of a run shows the peak.
struct RunMemory {
  uint64_t held_bytes = 0;    // anonymous and locked: cannot be dropped
  uint64_t mapped_bytes = 0;  // resident pages of files, without locked ones
};
RunMemory RunMemoryOf(const os::ProcessMemory& memory,
                      const gguf::WeightResidency& held);

// Three lines: prompt and generation with their speed (that of passes through
// the model; none without a pass), then the rest.
std::string FormatRunSummary(const decode::GenerateReport& report,
                             const TokenBytes& bytes_per_token,
                             const RunMemory& memory);

// "streamed   12.5 of 1024.0 records per generated token, 96.00 KiB in 9.5
// reads; 8.0 a layer early and 0.5 in vain; prompt 1.20 GiB"; of experts also
// how many of them the layer before foresaw, and how many were read in vain.
// Nothing where no row has asked for any.
std::string FormatStreamSummary(const engine::StreamTotals& totals);

// The line below an answer of a chat: tokens, their speed, how full the context
// is, and why the answer ended if not by itself. Without a line end.
std::string FormatAnswerSummary(const decode::GenerateReport& report,
                                int64_t position, int64_t context);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_RUN_REPORT_H_
