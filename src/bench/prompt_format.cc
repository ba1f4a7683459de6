#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/units.h"
#include "bench/prompt_bench.h"

namespace thermocline::bench {
namespace {

// Share of the roof, unless the cache hides it.
std::optional<double> PercentOfRoof(const PromptRow& row) {
  if (row.in_cache || row.roof_gb_per_s <= 0.0) return std::nullopt;
  return 100.0 * row.gb_per_s / row.roof_gb_per_s;
}

std::string RoofCell(const PromptRow& row) {
  const std::optional<double> percent = PercentOfRoof(row);
  if (percent.has_value()) return fmt::format("{:.1f}", *percent);
  return row.in_cache ? "in cache" : "";
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
  if (row.num_dropped > 0) {
    out += fmt::format(
        "{}: {} of {} dropped, the machine was busy\n", Title(row),
        row.num_dropped,
        Plural(row.runs.size() + static_cast<size_t>(row.num_dropped), "run"));
  }
  return out;
}

std::string FormatMarkdown(const PromptBenchReport& report) {
  size_t width = 13;
  for (const PromptRow& row : report.rows) {
    width = std::max(width, row.test.name().size());
  }
  std::string out = fmt::format(
      "{} {:>{}} | {:>18} | {:>12} | {:>14} | {:>8} | {:>8} | {:>8} | {:>8} | "
      "{:>8} | {:>9} |\n"
      "{} {:->{}}: | {:->17}: | {:->11}: | {:->13}: | {:->7}: | {:->7}: | "
      "{:->7}: | {:->7}: | {:->7}: | {:->8}: |\n",
      SubjectHeader(), "test", width, "t/s", "t/s + prompt", "first token ms",
      "p50 ms", "p90 ms", "p99 ms", "MB/token", "GB/s", "% of roof",
      SubjectRule(), "", width - 1, "", "", "", "", "", "", "", "", "");
  for (const PromptRow& row : report.rows) {
    out += fmt::format(
        "{} {:>{}} | {:>18} | {:>12.2f} | {:>14} | {:>8} | {:>8} | {:>8} | "
        "{:>8.2f} | {:>8.2f} | {:>9} |\n",
        SubjectCells(report.subject, row.num_threads), row.test.name(), width,
        fmt::format("{:.2f} ± {:.2f}", row.median, row.stddev),
        row.response_tokens_per_s, Milliseconds(row.first_token_ns),
        Milliseconds(row.p50_ns), Milliseconds(row.p90_ns),
        Milliseconds(row.p99_ns),
        static_cast<double>(row.bytes_per_token) / 1e6, row.gb_per_s,
        RoofCell(row));
  }
  out += "\n";
  for (const PromptRow& row : report.rows) out += Notes(row);
  return out;
}

nlohmann::ordered_json RowJson(const PromptRow& row) {
  nlohmann::ordered_json json = {{"test", row.test.name()},
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
                                 {"percent_of_roof", nullptr},
                                 {"num_dropped", row.num_dropped}};
  const std::optional<double> percent = PercentOfRoof(row);
  if (percent.has_value()) json["percent_of_roof"] = *percent;
  return json;
}

std::string FormatJson(const PromptBenchReport& report) {
  auto rows = nlohmann::ordered_json::array();
  for (const PromptRow& row : report.rows) {
    rows.push_back(SubjectJson(report.subject, row.num_threads));
    rows.back().update(RowJson(row));
  }
  // Paths and names are any bytes; JSON is UTF-8.
  return rows.dump(2, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

// Numbers of six decimals; the samples are in JSON only.
std::string FormatCsv(const PromptBenchReport& report) {
  std::string out = std::string(kSubjectCsvNames) +
                    "test,n_prompt,n_gen,num_prompts,num_prompts_given,"
                    "avg_prompt_tokens,avg_ts,stddev_ts,median_ts,response_ts,"
                    "first_token_ns,p50_ns,p90_ns,p99_ns,bytes_per_token,"
                    "is_sparse,candidate_share,open_share,gb_per_s,"
                    "roof_gb_per_s,in_cache,percent_of_roof,num_dropped\n";
  for (const PromptRow& row : report.rows) {
    const std::optional<double> percent = PercentOfRoof(row);
    out += SubjectCsv(report.subject, row.num_threads);
    out +=
        fmt::format("{},{},{},{},{},{:.6f},{:.6f},{:.6f},{:.6f},{:.6f},",
                    row.test.name(), row.test.num_prompt, row.test.num_generate,
                    row.num_prompts, row.num_given, row.mean_prompt, row.mean,
                    row.stddev, row.median, row.response_tokens_per_s);
    out += fmt::format("{:.0f},{:.0f},{:.0f},{:.0f},{},{},{:.6f},{:.6f},",
                       row.first_token_ns, row.p50_ns, row.p90_ns, row.p99_ns,
                       row.bytes_per_token, row.is_sparse, row.candidate_share,
                       row.open_share);
    out +=
        fmt::format("{:.6f},{:.6f},{},{},{}\n", row.gb_per_s, row.roof_gb_per_s,
                    row.in_cache,
                    percent.has_value() ? fmt::format("{:.3f}", *percent) : "",
                    row.num_dropped);
  }
  return out;
}

}  // namespace

std::string FormatPromptBench(const PromptBenchReport& report,
                              BenchFormat format) {
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
