#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "base/units.h"
#include "bench/prompt_bench.h"
#include "bench/table.h"
#include "neuron/json_values.h"

namespace thermocline::bench {
namespace {

std::optional<double> PercentOf(const PromptRow& row) {
  return PercentOfRoof(row.gb_per_s, row.roof_gb_per_s, row.in_cache);
}

std::string Milliseconds(double ns) { return fmt::format("{:.2f}", ns / 1e6); }

// "pp64+tg32, 2 threads": a row in the notes below the table.
std::string Title(const PromptRow& row) {
  return row.test.name() + ", " + Plural(row.num_threads, "thread");
}

// What a reader must know about a row.
std::string Notes(const PromptRow& row) {
  std::string out = fmt::format("{}: {} of {}", Title(row), row.num_prompts,
                                Plural(row.num_given, "prompt"));
  out +=
      row.test.num_prompt > 0
          ? fmt::format(", those of {} tokens and more", row.test.num_prompt)
          : fmt::format(", whole, {:.1f} tokens on average", row.mean_prompt);
  out += "; ends of text are never chosen\n";
  if (row.is_sparse) {
    out += fmt::format(
        "{}: of the neurons {:.1f} % looked at, {:.1f} % computed\n",
        Title(row), 100.0 * row.candidate_share, 100.0 * row.open_share);
  }
  return out + DroppedNote(Title(row), row.num_dropped, row.runs.size(), "run");
}

std::string FormatMarkdown(const PromptBenchReport& report) {
  size_t width = 13;
  for (const PromptRow& row : report.rows) {
    width = std::max(width, row.test.name().size());
  }
  const std::array columns = {
      Column{"test", width},      Column{"t/s", 18},
      Column{"t/s + prompt", 12}, Column{"first token ms", 14},
      Column{"p50 ms", 8},        Column{"p90 ms", 8},
      Column{"p99 ms", 8},        Column{"MB/token", 8},
      Column{"GB/s", 8},          Column{"% of roof", 9}};
  std::string out = TableHead(columns);
  for (const PromptRow& row : report.rows) {
    const std::array cells = {
        row.test.name(),
        fmt::format("{:.2f} ± {:.2f}", row.median, row.stddev),
        fmt::format("{:.2f}", row.response_tokens_per_s),
        Milliseconds(row.first_token_ns),
        Milliseconds(row.p50_ns),
        Milliseconds(row.p90_ns),
        Milliseconds(row.p99_ns),
        fmt::format("{:.2f}", static_cast<double>(row.bytes_per_token) / 1e6),
        fmt::format("{:.2f}", row.gb_per_s),
        RoofCell(PercentOf(row), row.in_cache)};
    out += TableLine(report.subject, row.num_threads, columns, cells);
  }
  out += "\n";
  for (const PromptRow& row : report.rows) out += Notes(row);
  return out;
}

std::vector<TableRow> RowsOf(const PromptBenchReport& report) {
  std::vector<TableRow> rows;
  for (const PromptRow& row : report.rows) {
    rows.push_back({row.num_threads,
                    {{"test", row.test.name()},
                     {"n_prompt", row.test.num_prompt},
                     {"n_gen", row.test.num_generate},
                     {"num_prompts", row.num_prompts},
                     {"num_prompts_given", row.num_given},
                     {"avg_prompt_tokens", row.mean_prompt},
                     {"avg_ts", row.mean},
                     {"stddev_ts", row.stddev},
                     {"median_ts", row.median},
                     {"samples_ts", row.tokens_per_s},
                     {"response_ts", row.response_tokens_per_s},
                     {"first_token_ns", row.first_token_ns},
                     {"p50_ns", row.p50_ns},
                     {"p90_ns", row.p90_ns},
                     {"p99_ns", row.p99_ns},
                     {"bytes_per_token", row.bytes_per_token},
                     {"is_sparse", row.is_sparse},
                     {"candidate_share", row.candidate_share},
                     {"open_share", row.open_share},
                     {"gb_per_s", row.gb_per_s},
                     {"roof_gb_per_s", row.roof_gb_per_s},
                     {"in_cache", row.in_cache},
                     {"percent_of_roof", OrNull(PercentOf(row))},
                     {"num_dropped", row.num_dropped}}});
  }
  return rows;
}

}  // namespace

std::string FormatPromptBench(const PromptBenchReport& report,
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

std::string FormatTokensCsv(const PromptBenchReport& report) {
  std::string out =
      "row,test,n_threads,repetition,line,position,token,ns,bytes\n";
  for (size_t i = 0; i < report.rows.size(); ++i) {
    const PromptRow& row = report.rows[i];
    for (const PromptRun& run : row.runs) {
      int64_t position = run.num_prompt;
      for (const TokenSample& token : run.tokens) {
        out += fmt::format(
            "{},{},{},{},{},{},{},{},{}\n", i + 1, row.test.name(),
            row.num_threads, run.repetition, run.line, position, token.token,
            token.ns,
            position == run.num_prompt ? "" : std::to_string(token.num_bytes));
        ++position;
      }
    }
  }
  return out;
}

}  // namespace thermocline::bench
