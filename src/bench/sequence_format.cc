#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/units.h"
#include "bench/sequence_bench.h"

namespace thermocline::bench {
namespace {

// Share of the roof, unless the cache hides it or the bytes are not known.
std::optional<double> PercentOfRoof(const SequenceRow& row) {
  if (row.in_cache || row.bytes_are_bound || row.roof_gb_per_s <= 0.0) {
    return std::nullopt;
  }
  return 100.0 * row.gb_per_s / row.roof_gb_per_s;
}

std::string RoofCell(const SequenceRow& row) {
  const std::optional<double> percent = PercentOfRoof(row);
  if (percent.has_value()) return fmt::format("{:.1f}", *percent);
  return row.in_cache ? "in cache" : "";
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
  if (row.num_dropped > 0) {
    out += fmt::format(
        "{}: {} of {} dropped, the machine was busy\n", Title(row),
        row.num_dropped,
        Plural(row.num_dropped + static_cast<int>(row.samples_ns.size()),
               "repetition"));
  }
  return out;
}

std::string FormatMarkdown(const SequenceBenchReport& report) {
  const bool is_sparse = std::ranges::any_of(
      report.rows, [](const SequenceRow& row) { return row.is_sparse; });
  size_t width = 13;
  for (const SequenceRow& row : report.rows) {
    width = std::max(width, row.test.name().size());
  }
  std::string out = fmt::format(
      "{} {:>{}} | {:>4} | {:>18} | {:>8} | {:>8} | {:>8} | {:>8} | {:>9} |",
      SubjectHeader(), "test", width, "np", "t/s", "t/s each", "ms/pass",
      "MB/token", "GB/s", "% of roof");
  if (is_sparse) out += " looked at, any / each % | computed, any / each % |";
  out += fmt::format(
      "\n{} {:->{}}: | {:->3}: | {:->17}: | {:->7}: | {:->7}: | {:->7}: | "
      "{:->7}: | {:->8}: |",
      SubjectRule(), "", width - 1, "", "", "", "", "", "", "");
  if (is_sparse) out += fmt::format(" {:->22}: | {:->21}: |", "", "");
  out += "\n";
  for (const SequenceRow& row : report.rows) {
    out += fmt::format(
        "{} {:>{}} | {:>4} | {:>18} | {:>8.2f} | {:>8.2f} | {:>8.2f} | {:>8} | "
        "{:>9} |",
        SubjectCells(report.subject, row.num_threads), row.test.name(), width,
        row.num_sequences,
        fmt::format("{:.2f} ± {:.2f}", row.median, row.stddev),
        row.tokens_per_s_each(), row.pass_ns() / 1e6,
        static_cast<double>(row.bytes_per_token) / 1e6,
        fmt::format("{}{:.2f}", row.bytes_are_bound ? "≤ " : "", row.gb_per_s),
        RoofCell(row));
    if (is_sparse) {
      out += fmt::format(
          " {:>23} | {:>22} |",
          SharesCell(row.union_candidate_share, row.candidate_share),
          SharesCell(row.union_open_share, row.open_share));
    }
    out += "\n";
  }
  std::string notes;
  for (const SequenceRow& row : report.rows) {
    notes += Notes(row, report.num_given);
  }
  return notes.empty() ? out : out + "\n" + notes;
}

nlohmann::ordered_json RowJson(const SequenceRow& row, size_t num_given) {
  nlohmann::ordered_json json = {
      {"test", row.test.name()},
      {"n_prompt", row.test.num_prompt},
      {"n_gen", row.test.num_generate},
      {"num_sequences", row.num_sequences},
      {"num_passes", row.num_passes},
      {"num_prompts", row.num_prompts},
      {"num_prompts_given", num_given},
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
      {"percent_of_roof", nullptr},
      {"num_dropped", row.num_dropped}};
  const std::optional<double> percent = PercentOfRoof(row);
  if (percent.has_value()) json["percent_of_roof"] = *percent;
  return json;
}

std::string FormatJson(const SequenceBenchReport& report) {
  auto rows = nlohmann::ordered_json::array();
  for (const SequenceRow& row : report.rows) {
    rows.push_back(SubjectJson(report.subject, row.num_threads));
    rows.back().update(RowJson(row, report.num_given));
  }
  // Paths and names are any bytes; JSON is UTF-8.
  return rows.dump(2, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

// Numbers of six decimals; the samples are in JSON only.
std::string FormatCsv(const SequenceBenchReport& report) {
  std::string out =
      std::string(kSubjectCsvNames) +
      "test,n_prompt,n_gen,num_sequences,num_passes,num_prompts,"
      "num_prompts_given,avg_prompt_tokens,avg_ts,stddev_ts,median_ts,each_ts,"
      "pass_ns,bytes_per_token,weight_bytes_per_pass,kv_bytes_per_token,"
      "bytes_are_bound,is_sparse,candidate_share,open_share,"
      "union_candidate_share,union_open_share,gb_per_s,roof_gb_per_s,in_cache,"
      "percent_of_roof,num_dropped\n";
  for (const SequenceRow& row : report.rows) {
    const std::optional<double> percent = PercentOfRoof(row);
    out += SubjectCsv(report.subject, row.num_threads);
    out += fmt::format("{},{},{},{},{},{},{},{:.6f},", row.test.name(),
                       row.test.num_prompt, row.test.num_generate,
                       row.num_sequences, row.num_passes, row.num_prompts,
                       report.num_given, row.mean_prompt);
    out +=
        fmt::format("{:.6f},{:.6f},{:.6f},{:.6f},{:.0f},", row.mean, row.stddev,
                    row.median, row.tokens_per_s_each(), row.pass_ns());
    out += fmt::format("{},{},{},{},{},", row.bytes_per_token,
                       row.weight_bytes_per_pass, row.kv_bytes_per_token,
                       row.bytes_are_bound, row.is_sparse);
    out += fmt::format("{:.6f},{:.6f},{:.6f},{:.6f},", row.candidate_share,
                       row.open_share, row.union_candidate_share,
                       row.union_open_share);
    out +=
        fmt::format("{:.6f},{:.6f},{},{},{}\n", row.gb_per_s, row.roof_gb_per_s,
                    row.in_cache,
                    percent.has_value() ? fmt::format("{:.3f}", *percent) : "",
                    row.num_dropped);
  }
  return out;
}

}  // namespace

std::string FormatSequenceBench(const SequenceBenchReport& report,
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

}  // namespace thermocline::bench
