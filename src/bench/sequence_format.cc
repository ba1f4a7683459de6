#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "base/units.h"
#include "bench/sequence_bench.h"
#include "bench/table.h"
#include "neuron/json_values.h"

namespace thermocline::bench {
namespace {

// None where the bytes are not known.
std::optional<double> PercentOf(const SequenceRow& row) {
  if (row.bytes_are_bound) return std::nullopt;
  return PercentOfRoof(row.gb_per_s, row.roof_gb_per_s, row.in_cache);
}

// "41.2 / 15.9": of a pass, and of a token.
std::string SharesCell(double of_any, double of_each) {
  return fmt::format("{:.1f} / {:.1f}", 100.0 * of_any, 100.0 * of_each);
}

std::string Title(const SequenceRow& row) {
  return fmt::format("{}, np {}, {}", row.test.name(), row.num_sequences,
                     Plural(row.num_threads, "thread"));
}

// What a reader must know about a row.
std::string Notes(const SequenceRow& row, size_t num_given) {
  std::string out;
  if (std::cmp_less(row.num_prompts, row.num_sequences) &&
      row.num_prompts > 0) {
    out +=
        fmt::format("{}: {} of {}, so that sequences repeat them\n", Title(row),
                    row.num_prompts, Plural(num_given, "prompt"));
  }
  if (row.bytes_are_bound) {
    out += fmt::format(
        "{}: bytes of as many experts as the tokens of a pass could choose, at "
        "most\n",
        Title(row));
  }
  return out + DroppedNote(Title(row), row.num_dropped, row.samples_ns.size(),
                           "repetition");
}

std::vector<Column> ColumnsOf(const SequenceBenchReport& report) {
  size_t width = 13;
  for (const SequenceRow& row : report.rows) {
    width = std::max(width, row.test.name().size());
  }
  std::vector<Column> columns = {
      {"test", width}, {"np", 4},       {"t/s", 18}, {"t/s each", 8},
      {"ms/pass", 8},  {"MB/token", 8}, {"GB/s", 8}, {"% of roof", 9}};
  if (std::ranges::any_of(report.rows, &SequenceRow::is_sparse)) {
    columns.push_back({"looked at, any / each %", 23});
    columns.push_back({"computed, any / each %", 22});
  }
  return columns;
}

std::string FormatMarkdown(const SequenceBenchReport& report) {
  const std::vector<Column> columns = ColumnsOf(report);
  std::string out = TableHead(columns);
  std::string notes;
  for (const SequenceRow& row : report.rows) {
    const std::array cells = {
        row.test.name(),
        std::to_string(row.num_sequences),
        fmt::format("{:.2f} ± {:.2f}", row.median, row.stddev),
        fmt::format("{:.2f}", row.tokens_per_s_each()),
        fmt::format("{:.2f}", row.pass_ns() / 1e6),
        fmt::format("{:.2f}", static_cast<double>(row.bytes_per_token) / 1e6),
        fmt::format("{}{:.2f}", row.bytes_are_bound ? "≤ " : "", row.gb_per_s),
        RoofCell(PercentOf(row), row.in_cache),
        SharesCell(row.union_candidate_share, row.candidate_share),
        SharesCell(row.union_open_share, row.open_share)};
    out += TableLine(report.subject, row.num_threads, columns, cells);
    notes += Notes(row, report.num_given);
  }
  return notes.empty() ? out : out + "\n" + notes;
}

std::vector<TableRow> RowsOf(const SequenceBenchReport& report) {
  std::vector<TableRow> rows;
  for (const SequenceRow& row : report.rows) {
    rows.push_back({row.num_threads,
                    {{"test", row.test.name()},
                     {"n_prompt", row.test.num_prompt},
                     {"n_gen", row.test.num_generate},
                     {"num_sequences", row.num_sequences},
                     {"num_passes", row.num_passes},
                     {"num_prompts", row.num_prompts},
                     {"num_prompts_given", report.num_given},
                     {"avg_prompt_tokens", row.mean_prompt},
                     {"avg_ts", row.mean},
                     {"stddev_ts", row.stddev},
                     {"median_ts", row.median},
                     {"each_ts", row.tokens_per_s_each()},
                     {"pass_ns", row.pass_ns()},
                     {"samples_ns", row.samples_ns},
                     {"samples_ts", row.tokens_per_s},
                     {"bytes_per_token", row.bytes_per_token},
                     {"weight_bytes_per_pass", row.weight_bytes_per_pass},
                     {"kv_bytes_per_token", row.kv_bytes_per_token},
                     {"bytes_are_bound", row.bytes_are_bound},
                     {"is_sparse", row.is_sparse},
                     {"candidate_share", row.candidate_share},
                     {"open_share", row.open_share},
                     {"union_candidate_share", row.union_candidate_share},
                     {"union_open_share", row.union_open_share},
                     {"gb_per_s", row.gb_per_s},
                     {"roof_gb_per_s", row.roof_gb_per_s},
                     {"in_cache", row.in_cache},
                     {"percent_of_roof", OrNull(PercentOf(row))},
                     {"num_dropped", row.num_dropped}}});
  }
  return rows;
}

}  // namespace

std::string FormatSequenceBench(const SequenceBenchReport& report,
                                BenchFormat format) {
  switch (format) {
    case BenchFormat::kMarkdown:
      return FormatMarkdown(report);
    case BenchFormat::kJson:
      return TableJson(report.subject, RowsOf(report));
    case BenchFormat::kCsv:
      return TableCsv(report.subject, RowsOf(report));
  }
  return {};
}

}  // namespace thermocline::bench
