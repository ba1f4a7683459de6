#include <fmt/format.h>

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "base/units.h"
#include "bench/bench.h"
#include "bench/profile_table.h"
#include "bench/table.h"
#include "neuron/json_values.h"

namespace thermocline::bench {
namespace {

// A prompt shares the weights among many tokens: then a share of the memory's
// roof says nothing.
bool IsPromptUnderArithmetic(const BenchRow& row) {
  return row.num_prompt > 0 && row.limit == LimitKind::kArithmetic;
}

// None where the bytes are not known.
std::optional<double> PercentOf(const BenchRow& row) {
  if (row.bytes_are_bound || IsPromptUnderArithmetic(row)) return std::nullopt;
  return PercentOfRoof(row.gb_per_s, row.roof_gb_per_s, row.in_cache);
}

std::optional<double> PercentOfLimit(const BenchRow& row) {
  if (row.limit == LimitKind::kNone) return std::nullopt;
  return row.percent_of_limit;
}

// Of the roof, or why there is no share of it.
std::string ShareCell(const BenchRow& row) {
  const std::string cell = RoofCell(PercentOf(row), row.in_cache);
  return cell.empty() && row.bytes_are_bound ? "sparse" : cell;
}

// "pp512, 2 threads": a row in the notes below the table.
std::string Title(const BenchRow& row) {
  return row.test + ", " + Plural(row.num_threads, "thread");
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
    out += DroppedNote(Title(row), row.num_dropped, row.samples_ns.size(),
                       "repetition");
  }
  return out.empty() ? out : "\n" + out;
}

std::string SparseNotes(const BenchReport& report) {
  std::string out;
  for (const BenchRow& row : report.rows) {
    if (row.candidate_share == 0.0) continue;
    out += fmt::format(
        "{}: {:.2f} MB per token; of the neurons {:.1f} % looked at, {:.1f} % "
        "computed\n",
        Title(row), static_cast<double>(row.bytes_per_token) / 1e6,
        100.0 * row.candidate_share, 100.0 * row.open_share);
  }
  return out.empty() ? out : "\n" + out;
}

std::string FormatMarkdown(const BenchReport& report) {
  constexpr std::array kColumns = {Column{"test", 13},  Column{"t/s", 20},
                                   Column{"GB/s", 8},   Column{"% of roof", 9},
                                   Column{"GMAC/s", 8}, Column{"limit", 18}};
  std::string out = TableHead(kColumns);
  for (const BenchRow& row : report.rows) {
    const std::string_view bound = row.bytes_are_bound ? "≤ " : "";
    const std::string_view most = row.is_sparse ? "≤ " : "";
    const std::array cells = {
        row.test,
        fmt::format("{:.2f} ± {:.2f}", row.median, row.stddev),
        fmt::format("{}{:.2f}", bound, row.gb_per_s),
        ShareCell(row),
        fmt::format("{}{:.1f}", most, row.gmac_per_s),
        LimitCell(row)};
    out += TableLine(report.subject, row.num_threads, kColumns, cells);
  }
  out += SparseNotes(report);
  out += DroppedNotes(report);
  for (const BenchRow& row : report.rows) {
    if (!row.profile.has_value()) continue;
    out += fmt::format("\n{}:\n\n{}", Title(row),
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

std::vector<TableRow> RowsOf(const BenchReport& report) {
  std::vector<TableRow> rows;
  for (const BenchRow& row : report.rows) {
    const std::optional<double> percent_of_limit = PercentOfLimit(row);
    nlohmann::ordered_json json = {
        {"test", row.test},
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
        {"percent_of_roof", OrNull(PercentOf(row))},
        {"gmac_per_s", row.gmac_per_s},
        {"limit", nullptr},
        {"percent_of_limit", OrNull(percent_of_limit)},
        {"num_dropped", row.num_dropped}};
    if (percent_of_limit.has_value()) json["limit"] = NameOf(row.limit);
    if (row.profile.has_value()) json["profile"] = ProfileJson(*row.profile);
    rows.push_back({row.num_threads, std::move(json)});
  }
  return rows;
}

// Columns that came later stand behind the others: readers count.
constexpr std::array<std::string_view, 22> kCsvNames = {"test",
                                                        "n_prompt",
                                                        "n_gen",
                                                        "avg_ns",
                                                        "stddev_ns",
                                                        "avg_ts",
                                                        "stddev_ts",
                                                        "median_ts",
                                                        "bytes_per_token",
                                                        "bytes_are_bound",
                                                        "gb_per_s",
                                                        "roof_gb_per_s",
                                                        "in_cache",
                                                        "percent_of_roof",
                                                        "n_depth",
                                                        "gmac_per_s",
                                                        "limit",
                                                        "percent_of_limit",
                                                        "num_dropped",
                                                        "is_sparse",
                                                        "candidate_share",
                                                        "open_share"};

}  // namespace

std::string FormatBench(const BenchReport& report, BenchFormat format) {
  switch (format) {
    case BenchFormat::kMarkdown:
      return FormatMarkdown(report);
    case BenchFormat::kJson:
      return TableJson(report.subject, RowsOf(report));
    case BenchFormat::kCsv:
      return TableCsv(report.subject, RowsOf(report), kCsvNames);
  }
  return {};
}

}  // namespace thermocline::bench
