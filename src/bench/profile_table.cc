#include "bench/profile_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace thermocline::bench {
namespace {

using compute::Stage;
using compute::StageTimes;
using compute::StageTotals;

// What is in no stage.
StageTotals OtherOf(const StageTimes& profile) {
  StageTotals staged;
  for (const StageTotals& stage : profile.stages) staged += stage;
  const StageTotals& whole = profile.whole;
  return {.ns = whole.ns - std::min(staged.ns, whole.ns),
          .num_joins =
              whole.num_joins - std::min(staged.num_joins, whole.num_joins),
          .wait_ns = whole.wait_ns - std::min(staged.wait_ns, whole.wait_ns)};
}

std::string Row(std::string_view name, const StageTotals& totals,
                const StageTimes& profile) {
  const auto num_batches =
      static_cast<double>(std::max<uint64_t>(profile.whole.num_calls, 1));
  const auto ns = static_cast<double>(std::max<uint64_t>(totals.ns, 1));
  const auto whole_ns =
      static_cast<double>(std::max<uint64_t>(profile.whole.ns, 1));
  const auto num_bytes = static_cast<double>(totals.num_bytes);
  const bool is_known = totals.num_bytes > 0;
  return fmt::format(
      "| {:<8} | {:>7.1f} | {:>10.1f} | {:>6.1f} | {:>9} | {:>7} | {:>7.1f} | "
      "{:>9.1f} |\n",
      name, static_cast<double>(totals.num_calls) / num_batches,
      ns / num_batches / 1e3, 100.0 * ns / whole_ns,
      is_known ? fmt::format("{:.2f}", num_bytes / num_batches / 1e6) : "",
      is_known ? fmt::format("{:.2f}", num_bytes / ns) : "",
      static_cast<double>(totals.num_joins) / num_batches,
      static_cast<double>(totals.wait_ns) / num_batches / 1e3);
}

}  // namespace

std::string FormatProfile(const StageTimes& profile, size_t num_layers) {
  std::string out = fmt::format(
      "| {:<8} | {:>7} | {:>10} | {:>6} | {:>9} | {:>7} | {:>7} | {:>9} |\n"
      "| {:-<8} | {:->6}: | {:->9}: | {:->5}: | {:->8}: | {:->6}: | {:->6}: | "
      "{:->8}: |\n",
      "stage", "calls", "time us", "share", "MB", "GB/s", "joins", "wait us",
      "", "", "", "", "", "", "", "");
  for (size_t i = 0; i < compute::kNumStages; ++i) {
    if (profile.stages[i].num_calls == 0) continue;
    out += Row(NameOf(static_cast<Stage>(i)), profile.stages[i], profile);
  }
  out += Row("other", OtherOf(profile), profile);
  out += Row("whole", profile.whole, profile);
  const uint64_t outside =
      profile.of(Stage::kEmbed).num_joins + profile.of(Stage::kHead).num_joins;
  const auto in_layers = static_cast<double>(
      profile.whole.num_joins - std::min(outside, profile.whole.num_joins));
  out += fmt::format("\nMeans of {} batches. Joins per layer: {:.1f}\n",
                     profile.whole.num_calls,
                     in_layers / static_cast<double>(std::max<uint64_t>(
                                     profile.whole.num_calls * num_layers, 1)));
  return out;
}

}  // namespace thermocline::bench
