#include "cli/run_report.h"

#include <fmt/format.h>

#include "base/units.h"

namespace thermocline::cli {
namespace {

// A rate of work too short for the clock is not a number worth printing.
double PerSecond(int64_t count, double seconds) {
  return seconds > 0.0 ? static_cast<double>(count) / seconds : 0.0;
}

}  // namespace

const char* DescribeStop(decode::StopReason reason) {
  switch (reason) {
    case decode::StopReason::kMaxTokens:
      return "token limit";
    case decode::StopReason::kEndOfGeneration:
      return "end of text";
    case decode::StopReason::kStopString:
      return "stop string";
    case decode::StopReason::kContextFull:
      return "context full";
    case decode::StopReason::kCancelled:
      return "interrupted";
    case decode::StopReason::kReceiver:
      return "output closed";
  }
  return "";
}

std::string FormatRunSummary(const decode::GenerateReport& report,
                             uint64_t bytes_per_token,
                             const os::ProcessMemory& memory) {
  const double prompt_rate =
      PerSecond(report.num_prompt_tokens, report.prompt_seconds);
  const double generate_rate =
      PerSecond(report.num_generated_tokens, report.generate_seconds);
  return fmt::format(
      "prompt     {:6} tokens in {:8.3f} s  {:9.2f} tok/s\n"
      "generated  {:6} tokens in {:8.3f} s  {:9.2f} tok/s  {} per token, "
      "{:.2f} GB/s\n"
      "stop: {}, seed {}, peak memory {} resident ({} anonymous)\n",
      report.num_prompt_tokens, report.prompt_seconds, prompt_rate,
      report.num_generated_tokens, report.generate_seconds, generate_rate,
      FormatBytes(bytes_per_token),
      generate_rate * static_cast<double>(bytes_per_token) / 1e9,
      DescribeStop(report.reason), report.seed,
      FormatBytes(memory.peak_resident_bytes),
      FormatBytes(memory.anonymous_bytes));
}

}  // namespace thermocline::cli
