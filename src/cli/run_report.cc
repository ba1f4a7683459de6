#include "cli/run_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"

namespace thermocline::cli {
namespace {

// "  40.00 tok/s", or nothing when nothing was timed.
std::string Rate(int64_t count, double seconds) {
  if (count == 0 || seconds <= 0.0) return "";
  return fmt::format("  {:9.2f} tok/s", static_cast<double>(count) / seconds);
}

std::string BytesRate(int64_t count, double seconds,
                      const TokenBytes& bytes_per_token) {
  if (count == 0 || seconds <= 0.0) return "";
  const double bytes =
      static_cast<double>(count) * static_cast<double>(bytes_per_token.count);
  const char* at_most = bytes_per_token.is_bound ? "at most " : "";
  return fmt::format("  {}{}{} per token, {}{:.2f} GB/s", at_most,
                     FormatBytes(bytes_per_token.count),
                     bytes_per_token.of_graphs ? " of the graphs" : "", at_most,
                     bytes / 1e9 / seconds);
}

// ", 81 % foreseen, 1.2 read in vain", where there were guesses.
std::string FormatGuesses(const engine::StreamTotals::OfPhase& generated) {
  if (generated.num_foreseeable == 0) return "";
  return fmt::format(", {:.0f} % foreseen, {:.1f} read in vain",
                     100.0 * static_cast<double>(generated.num_foreseen) /
                         static_cast<double>(generated.num_foreseeable),
                     static_cast<double>(generated.num_vain) /
                         static_cast<double>(generated.num_rows));
}

// "; 200.1 hits, 3.0 admitted, 1.2 moved (4.80 KiB), 0.4 wasted": what a policy
// did, if there was one.
std::string FormatBalance(const engine::StreamTotals::OfPhase& generated) {
  if (generated.num_hits + generated.num_admissions + generated.num_moves ==
      0) {
    return "";
  }
  const auto num_rows =
      static_cast<double>(std::max<uint64_t>(generated.num_rows, 1));
  const auto per_token = [&](uint64_t count) {
    return static_cast<double>(count) / num_rows;
  };
  return fmt::format(
      "; {:.1f} hits, {:.1f} admitted, {:.1f} moved ({}), {:.1f} wasted",
      per_token(generated.num_hits), per_token(generated.num_admissions),
      per_token(generated.num_moves),
      FormatBytes(static_cast<uint64_t>(per_token(generated.num_move_bytes))),
      per_token(generated.num_wasted));
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

RunMemory RunMemoryOf(const os::ProcessMemory& memory,
                      const gguf::WeightResidency& held) {
  // Locked memory that was read is anonymous, and counted already.
  const uint64_t locked_bytes =
      held.read ? 0 : std::min(memory.locked_bytes, memory.mapped_bytes);
  return {.held_bytes = memory.anonymous_bytes + locked_bytes,
          .mapped_bytes = memory.mapped_bytes - locked_bytes};
}

std::string FormatRunSummary(const decode::GenerateReport& report,
                             const TokenBytes& bytes_per_token,
                             const RunMemory& memory) {
  // As wide as the longer form, so that the times stay below each other.
  const auto noun = [](auto count) { return count == 1 ? "token " : "tokens"; };
  return fmt::format(
      "prompt     {:6} {} in {:8.3f} s{}\n"
      "generated  {:6} {} in {:8.3f} s{}{}\n"
      "stop: {}, seed {}, peak memory {} anonymous and locked, {} mapped\n",
      report.num_prompt_tokens, noun(report.num_prompt_tokens),
      report.prompt_seconds,
      Rate(report.num_prompt_tokens, report.prompt_seconds),
      report.tokens.size(), noun(report.tokens.size()), report.generate_seconds,
      Rate(report.num_decodes, report.generate_seconds),
      BytesRate(report.num_decodes, report.generate_seconds, bytes_per_token),
      DescribeStop(report.reason), report.seed, FormatBytes(memory.held_bytes),
      FormatBytes(memory.mapped_bytes));
}

std::string FormatStreamSummary(const engine::StreamTotals& totals) {
  const engine::StreamTotals::OfPhase& generated = totals.generated;
  if (generated.num_rows + totals.prompt.num_rows == 0) return "";
  const auto per_token = [&](uint64_t count) {
    return static_cast<double>(count) /
           static_cast<double>(std::max<uint64_t>(generated.num_rows, 1));
  };
  return fmt::format(
      "streamed   {:.1f} of {:.1f} {} per generated token, {} in {:.1f} "
      "reads{}{}{}; prompt {}\n",
      per_token(generated.num_missed), per_token(generated.num_wanted),
      engine::NameOf(totals.unit),
      FormatBytes(static_cast<uint64_t>(per_token(generated.num_bytes))),
      per_token(generated.num_reads),
      generated.num_early == 0
          ? ""
          : fmt::format(
                "; {:.1f} a layer early and {:.1f} in vain",
                per_token(generated.num_early_used),
                per_token(generated.num_early - generated.num_early_used)),
      FormatGuesses(generated), FormatBalance(generated),
      FormatBytes(totals.prompt.num_bytes));
}

std::string FormatAnswerSummary(const decode::GenerateReport& report,
                                int64_t position, int64_t context) {
  const auto rate = [](int64_t count, double seconds) {
    return count == 0 || seconds <= 0.0
               ? ""
               : fmt::format(", {:.2f} tok/s",
                             static_cast<double>(count) / seconds);
  };
  const bool is_usual = report.reason == decode::StopReason::kEndOfGeneration ||
                        report.reason == decode::StopReason::kStopString;
  return fmt::format("[prompt {}{}; answer {}{}; {} of {}{}{}]",
                     Plural(report.num_prompt_tokens, "token"),
                     rate(report.num_prompt_tokens, report.prompt_seconds),
                     Plural(report.tokens.size(), "token"),
                     rate(report.num_decodes, report.generate_seconds),
                     position, Plural(context, "position"),
                     is_usual ? "" : "; ",
                     is_usual ? "" : DescribeStop(report.reason));
}

}  // namespace thermocline::cli
