#include "cli/storage_plan_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/units.h"
#include "planner/plan_text.h"

namespace thermocline::cli {
namespace {

std::string ListCpus(const std::vector<int>& cpus) {
  return planner::FormatRuns(std::vector<uint32_t>(cpus.begin(), cpus.end()));
}

std::string Bytes(double num_bytes) {
  return FormatBytes(static_cast<uint64_t>(num_bytes));
}

std::string DescribeCores(const planner::StoragePlan& plan) {
  return fmt::format(
      "cores     {} on CPU {}; {}\n",
      plan.cores.num_compute == 1
          ? "1 thread computes"
          : fmt::format("{} threads compute", plan.cores.num_compute),
      ListCpus(plan.compute_cpus),
      plan.io_cpus.empty()
          ? "they read too: the reads are asynchronous"
          : fmt::format("CPU {} reads alone", ListCpus(plan.io_cpus)));
}

std::string DescribeCache(const planner::StoragePlan& plan) {
  const planner::StorageCase& chosen = plan.chosen;
  if (chosen.unit == "none") {
    return "cache     none: all of the model is in memory\n";
  }
  return fmt::format(
      "cache     {} of slots for {}{}, of {} in all\n",
      FormatBytes(chosen.cache_bytes), chosen.unit,
      chosen.policy.empty() ? "" : fmt::format(" ({})", chosen.policy),
      FormatBytes(chosen.total_bytes));
}

std::string DescribePredicted(const planner::StorageCost& cost) {
  const auto ms = [](double seconds) {
    return fmt::format("{:.3f}", 1e3 * seconds);
  };
  return fmt::format(
      "predicted {:.2f} tokens/s: {} ms a token (P50 {}, P90 {}, P99 {}), in "
      "which {} ms are waited for products, {} for memory, {} for storage\n",
      cost.tokens_per_s(), ms(cost.seconds), ms(cost.p50_seconds),
      ms(cost.p90_seconds), ms(cost.p99_seconds), ms(cost.compute_seconds),
      ms(cost.memory_seconds), ms(cost.storage_seconds));
}

std::string DescribeMisses(const StoragePlanReport& report) {
  const planner::StorageCost& cost = report.plan.cost;
  const std::string& unit = report.plan.chosen.unit;
  if (unit == "none") return "";
  return fmt::format(
      "misses    {:.1f} of {:.1f} {} a token, {} in {:.1f} reads; {}\n",
      cost.num_missed, cost.num_used, unit, Bytes(cost.read_bytes),
      cost.num_reads, report.source);
}

std::string DescribePrompts(const StoragePlanReport& report) {
  if (report.dense_prompt_from == 0) {
    return "prompts   the CPU, token by token\n";
  }
  return fmt::format(
      "prompts   the CPU, with all neurons, whole layers read one after the "
      "other; pays from {} on (512 tokens take {:.3f} s)\n",
      Plural(report.dense_prompt_from, "token"), report.prompt_512_seconds);
}

std::string DescribeLeast(const StoragePlanReport& report) {
  std::string text =
      fmt::format("memory    {} at least, {} hold all of it\n",
                  FormatBytes(report.least_ram), FormatBytes(report.all_ram));
  if (!report.min_speed) return text;
  const auto& [speed, ram] = *report.min_speed;
  return text + (ram == 0
                     ? fmt::format("least     no RAM is enough here for {:g} "
                                   "tokens/s\n",
                                   speed)
                     : fmt::format("least     {} of RAM for {:g} tokens/s\n",
                                   FormatBytes(ram), speed));
}

std::string Explain(const StoragePlanReport& report,
                    const planner::StorageMachine& machine) {
  const planner::StorageCost& cost = report.plan.cost;
  std::string text = fmt::format(
      "alone     products {:.3f} ms, memory {:.3f} ms, storage {:.3f} ms a "
      "token; {} compared\n",
      1e3 * cost.compute_alone, 1e3 * cost.memory_alone,
      1e3 * cost.storage_alone, Plural(report.plan.num_cases, "case"));
  const auto rate = [&](bool is_random, double bytes, double depth) {
    return planner::ReadsPerSecond(machine, is_random, bytes, depth) * bytes /
           1e6;
  };
  text += fmt::format(
      "machine   products {:.1f} GB/s a core, memory {:.1f} GB/s with {}, "
      "4 KiB at random {:.0f} MB/s alone and {:.0f} with 32 under way, 1 MiB "
      "in sequence {:.0f}; a read takes {:.1f} us of a core\n",
      machine.cores.front().row_rate / 1e9,
      planner::MemoryBytesPerSecond(machine, report.plan.cores.num_compute) /
          1e9,
      Plural(report.plan.cores.num_compute, "thread"), rate(true, 4096, 1),
      rate(true, 4096, 32), rate(false, 1 << 20, 8),
      1e6 * machine.read_cpu_seconds);
  if (report.by_ram.empty()) return text;
  text += "\n| RAM | tokens/s |\n|---:|---:|\n";
  for (const auto& [ram, speed] : report.by_ram) {
    text += fmt::format("| {} | {:.2f} |\n", FormatBytes(ram), speed);
  }
  return text;
}

}  // namespace

std::string FormatStoragePlanReport(const StoragePlanReport& report,
                                    const planner::StorageMachine& machine,
                                    bool explain) {
  std::string text = fmt::format("plan      {} of RAM on {}: context {}, {}\n",
                                 FormatBytes(report.ram), report.machine,
                                 report.context, report.mode);
  text += DescribeCores(report.plan);
  text += DescribeCache(report.plan);
  text += DescribePredicted(report.plan.cost);
  text += DescribeMisses(report);
  text += DescribePrompts(report);
  text += DescribeLeast(report);
  if (explain) text += Explain(report, machine);
  return text;
}

std::string FormatPrediction(const planner::StoragePlanFile& plan,
                             double measured_tokens_per_s,
                             std::optional<double> measured_misses) {
  const double predicted = plan.seconds > 0.0 ? 1.0 / plan.seconds : 0.0;
  if (!measured_misses || plan.unit == "none") {
    return fmt::format("predicted {:.2f} tok/s, measured {:.2f}\n", predicted,
                       measured_tokens_per_s);
  }
  return fmt::format(
      "predicted {:.2f} tok/s ({:.1f} misses a token), measured {:.2f} "
      "({:.1f})\n",
      predicted, plan.num_missed, measured_tokens_per_s, *measured_misses);
}

}  // namespace thermocline::cli
