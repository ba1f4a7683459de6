#include <nlohmann/json.hpp>
#include <optional>

#include "base/quote.h"
#include "base/units.h"
#include "bench/bench.h"
#include "bench/profile_table.h"

namespace thermocline::bench {
namespace {

// A prompt shares the weights among many tokens: then a share of the memory's
// roof says nothing.
bool IsPromptUnderArithmetic(const BenchRow& row) {
  return row.num_prompt > 0 && row.limit == LimitKind::kArithmetic;
}

// Share of the roof, unless the cache hides it or the bytes are not known.
std::optional<double> PercentOfRoof(const BenchRow& row) {
  if (row.in_cache || row.bytes_are_bound || row.roof_gb_per_s <= 0.0 ||
      IsPromptUnderArithmetic(row)) {
    return std::nullopt;
  }
  return 100.0 * row.gb_per_s / row.roof_gb_per_s;
}

std::optional<double> PercentOfLimit(const BenchRow& row) {
  if (row.limit == LimitKind::kNone) return std::nullopt;
  return row.percent_of_limit;
}

std::string RoofCell(const BenchRow& row) {
  const std::optional<double> percent = PercentOfRoof(row);
  if (percent.has_value()) return fmt::format("{:.1f}", *percent);
  if (row.in_cache) return "in cache";
  return row.bytes_are_bound ? "sparse" : "";
}

std::string LimitCell(const BenchRow& row) {
  const std::optional<double> percent = PercentOfLimit(row);
  if (!percent.has_value()) return "";
  return fmt::format("{} {:>5.1f} %", NameOf(row.limit), *percent);
}

// What a reader must know about the numbers above.
std::string DroppedNotes(const BenchReport& report) {
  std::string out;
  for (const BenchRow& row : report.rows) {
    if (row.num_dropped == 0) continue;
    out += fmt::format(
        "{}, {}: {} of {} dropped, the machine was busy\n", row.test,
        Plural(row.num_threads, "thread"), row.num_dropped,
        Plural(row.num_dropped + static_cast<int>(row.samples_ns.size()),
               "repetition"));
  }
  return out.empty() ? out : "\n" + out;
}

std::string SparseNotes(const BenchReport& report) {
  std::string out;
  for (const BenchRow& row : report.rows) {
    if (row.candidate_share == 0.0) continue;
    out += fmt::format(
        "{}, {}: {:.2f} MB per token; of the neurons {:.1f} % looked "
        "at, {:.1f} % computed\n",
        row.test, Plural(row.num_threads, "thread"),
        static_cast<double>(row.bytes_per_token) / 1e6,
        100.0 * row.candidate_share, 100.0 * row.open_share);
  }
  return out.empty() ? out : "\n" + out;
}

std::string FormatMarkdown(const BenchReport& report) {
  std::string out = fmt::format(
      "{} {:>13} | {:>20} | {:>8} | {:>9} | {:>8} | {:>18} |\n"
      "{} {:->12}: | {:->19}: | {:->7}: | {:->8}: | {:->7}: | {:->17}: |\n",
      SubjectHeader(), "test", "t/s", "GB/s", "% of roof", "GMAC/s", "limit",
      SubjectRule(), "", "", "", "", "", "");
  for (const BenchRow& row : report.rows) {
    const std::string_view bound = row.bytes_are_bound ? "≤ " : "";
    const std::string_view most = row.is_sparse ? "≤ " : "";
    out += fmt::format(
        "{} {:>13} | {:>20} | {:>8} | {:>9} | {:>8} | {:>18} |\n",
        SubjectCells(report.subject, row.num_threads), row.test,
        fmt::format("{:.2f} ± {:.2f}", row.median, row.stddev),
        fmt::format("{}{:.2f}", bound, row.gb_per_s), RoofCell(row),
        fmt::format("{}{:.1f}", most, row.gmac_per_s), LimitCell(row));
  }
  out += SparseNotes(report);
  out += DroppedNotes(report);
  for (const BenchRow& row : report.rows) {
    if (!row.profile.has_value()) continue;
    out += fmt::format("\n{}, {}:\n\n{}", row.test,
                       Plural(row.num_threads, "thread"),
                       FormatProfile(*row.profile, report.subject.num_layers));
  }
  return out;
}

nlohmann::ordered_json TotalsJson(std::string_view name,
                                  const compute::StageTotals& totals) {
  return {{"stage", name},
          {"calls", totals.num_calls},
          {"ns", totals.ns},
          {"bytes", totals.num_bytes},
          {"joins", totals.num_joins},
          {"wait_ns", totals.wait_ns}};
}

nlohmann::ordered_json ProfileJson(const compute::StageTimes& profile) {
  auto stages = nlohmann::ordered_json::array();
  for (size_t i = 0; i < compute::kNumStages; ++i) {
    stages.push_back(
        TotalsJson(NameOf(static_cast<compute::Stage>(i)), profile.stages[i]));
  }
  stages.push_back(TotalsJson("whole", profile.whole));
  return stages;
}

std::string FormatJson(const BenchReport& report) {
  auto rows = nlohmann::ordered_json::array();
  for (const BenchRow& row : report.rows) {
    const std::optional<double> percent = PercentOfRoof(row);
    auto& json =
        rows.emplace_back(SubjectJson(report.subject, row.num_threads));
    json.update({{"test", row.test},
                 {"n_prompt", row.num_prompt},
                 {"n_gen", row.num_generate},
                 {"n_depth", row.depth},
                 {"avg_ns", row.mean_ns},
                 {"stddev_ns", row.stddev_ns},
                 {"avg_ts", row.mean},
                 {"stddev_ts", row.stddev},
                 {"median_ts", row.median},
                 {"samples_ns", row.samples_ns},
                 {"samples_ts", row.tokens_per_s},
                 {"bytes_per_token", row.bytes_per_token},
                 {"is_sparse", row.is_sparse},
                 {"bytes_are_bound", row.bytes_are_bound},
                 {"candidate_share", row.candidate_share},
                 {"open_share", row.open_share},
                 {"gb_per_s", row.gb_per_s},
                 {"roof_gb_per_s", row.roof_gb_per_s},
                 {"in_cache", row.in_cache},
                 {"percent_of_roof", nullptr},
                 {"gmac_per_s", row.gmac_per_s},
                 {"limit", nullptr},
                 {"percent_of_limit", nullptr},
                 {"num_dropped", row.num_dropped}});
    if (percent.has_value()) json["percent_of_roof"] = *percent;
    if (row.limit != LimitKind::kNone) {
      json["limit"] = NameOf(row.limit);
      json["percent_of_limit"] = row.percent_of_limit;
    }
    if (row.profile.has_value()) {
      json["profile"] = ProfileJson(*row.profile);
    }
  }
  // Paths and names are any bytes; JSON is UTF-8.
  return rows.dump(2, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

std::string Number(const std::optional<double>& value) {
  return value.has_value() ? fmt::format("{:.3f}", *value) : "";
}

// Numbers of six decimals; the samples are in JSON only.
std::string FormatCsv(const BenchReport& report) {
  std::string out =
      std::string(kSubjectCsvNames) +
      "test,"
      "n_prompt,n_gen,avg_ns,stddev_ns,avg_ts,stddev_ts,median_ts,"
      "bytes_per_token,bytes_are_bound,gb_per_s,roof_gb_per_s,in_cache,"
      "percent_of_roof,n_depth,gmac_per_s,limit,percent_of_limit,num_dropped,"
      "is_sparse,candidate_share,open_share\n";
  for (const BenchRow& row : report.rows) {
    const std::optional<double> percent = PercentOfRoof(row);
    out += SubjectCsv(report.subject, row.num_threads);
    out += fmt::format("{},{},{},{:.0f},{:.0f},{:.6f},{:.6f},{:.6f},", row.test,
                       row.num_prompt, row.num_generate, row.mean_ns,
                       row.stddev_ns, row.mean, row.stddev, row.median);
    out += fmt::format("{},{},{:.6f},{:.6f},{},{},", row.bytes_per_token,
                       row.bytes_are_bound, row.gb_per_s, row.roof_gb_per_s,
                       row.in_cache, Number(percent));
    out += fmt::format("{},{:.6f},{},{},{},{},{:.6f},{:.6f}\n", row.depth,
                       row.gmac_per_s, NameOf(row.limit),
                       Number(PercentOfLimit(row)), row.num_dropped,
                       row.is_sparse, row.candidate_share, row.open_share);
  }
  return out;
}

}  // namespace

std::string FormatBench(const BenchReport& report, BenchFormat format) {
  switch (format) {
    case BenchFormat::kMarkdown:
      return FormatMarkdown(report);
    case BenchFormat::kJson:
      return FormatJson(report);
    case BenchFormat::kCsv:
      return FormatCsv(report);
  }
  return {};
}

}  // namespace thermocline::bench
