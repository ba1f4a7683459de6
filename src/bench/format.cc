#include <nlohmann/json.hpp>
#include <optional>

#include "base/units.h"
#include "bench/bench.h"

namespace thermocline::bench {
namespace {

// Share of the roof, unless the cache hides it or the bytes are not known.
std::optional<double> PercentOfRoof(const BenchRow& row) {
  if (row.in_cache || row.bytes_are_bound || row.roof_gb_per_s <= 0.0) {
    return std::nullopt;
  }
  return 100.0 * row.gb_per_s / row.roof_gb_per_s;
}

std::string RoofCell(const BenchRow& row) {
  const std::optional<double> percent = PercentOfRoof(row);
  if (percent.has_value()) return fmt::format("{:.1f}", *percent);
  return row.in_cache ? "in cache" : "sparse";
}

// A cell of a Markdown table: a bar would end it.
std::string Cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

std::string FormatMarkdown(const BenchReport& report) {
  std::string out = fmt::format(
      "| {:<30} | {:>10} | {:>10} | {:<10} | {:>7} | {:>13} | {:>20} | {:>8} | "
      "{:>9} |\n"
      "| {:-<30} | {:->9}: | {:->9}: | {:-<10} | {:->6}: | {:->12}: | {:->19}: "
      "| {:->7}: | {:->8}: |\n",
      "model", "size", "params", "backend", "threads", "test", "t/s", "GB/s",
      "% of roof", "", "", "", "", "", "", "", "", "");
  for (const BenchRow& row : report.rows) {
    out += fmt::format(
        "| {:<30} | {:>10} | {:>10} | {:<10} | {:>7} | {:>13} | {:>20} | "
        "{:>8} | {:>9} |\n",
        Cell(report.model_name), FormatBytes(report.model_bytes),
        FormatCount(report.num_params), "CPU", row.num_threads, row.test,
        fmt::format("{:.2f} ± {:.2f}", row.mean, row.stddev),
        fmt::format("{}{:.2f}", row.bytes_are_bound ? "≤ " : "", row.gb_per_s),
        RoofCell(row));
  }
  return out;
}

std::string FormatJson(const BenchReport& report) {
  auto rows = nlohmann::ordered_json::array();
  for (const BenchRow& row : report.rows) {
    const std::optional<double> percent = PercentOfRoof(row);
    rows.push_back({{"build_commit", report.build},
                    {"cpu_info", report.cpu},
                    {"model_filename", report.model_path},
                    {"model_type", report.model_name},
                    {"model_size", report.model_bytes},
                    {"model_n_params", report.num_params},
                    {"backends", "CPU"},
                    {"isa", report.isa},
                    {"ffn", report.ffn},
                    {"n_batch", report.batch},
                    {"n_threads", row.num_threads},
                    {"type_k", NameOf(report.k_type)},
                    {"type_v", NameOf(report.v_type)},
                    {"test", row.test},
                    {"n_prompt", row.num_prompt},
                    {"n_gen", row.num_generate},
                    {"avg_ns", row.mean_ns},
                    {"stddev_ns", row.stddev_ns},
                    {"avg_ts", row.mean},
                    {"stddev_ts", row.stddev},
                    {"median_ts", row.median},
                    {"samples_ns", row.samples_ns},
                    {"samples_ts", row.tokens_per_s},
                    {"bytes_per_token", row.bytes_per_token},
                    {"bytes_are_bound", row.bytes_are_bound},
                    {"gb_per_s", row.gb_per_s},
                    {"roof_gb_per_s", row.roof_gb_per_s},
                    {"in_cache", row.in_cache},
                    {"percent_of_roof", nullptr}});
    if (percent.has_value()) rows.back()["percent_of_roof"] = *percent;
  }
  // Paths and names are any bytes; JSON is UTF-8.
  return rows.dump(2, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

// A quoted field; quotes inside are doubled (RFC 4180).
std::string Quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

// Numbers of six decimals; the samples are in JSON only.
std::string FormatCsv(const BenchReport& report) {
  std::string out =
      "build_commit,cpu_info,model_filename,model_type,model_size,"
      "model_n_params,backends,isa,ffn,n_batch,n_threads,type_k,type_v,test,"
      "n_prompt,n_gen,avg_ns,stddev_ns,avg_ts,stddev_ts,median_ts,"
      "bytes_per_token,bytes_are_bound,gb_per_s,roof_gb_per_s,in_cache,"
      "percent_of_roof\n";
  for (const BenchRow& row : report.rows) {
    const std::optional<double> percent = PercentOfRoof(row);
    out += fmt::format("{},{},{},{},{},{},CPU,{},{},{},", Quote(report.build),
                       Quote(report.cpu), Quote(report.model_path),
                       Quote(report.model_name), report.model_bytes,
                       report.num_params, report.isa, report.ffn, report.batch);
    out += fmt::format("{},{},{},{},{},{},{:.0f},{:.0f},{:.6f},{:.6f},{:.6f},",
                       row.num_threads, NameOf(report.k_type),
                       NameOf(report.v_type), row.test, row.num_prompt,
                       row.num_generate, row.mean_ns, row.stddev_ns, row.mean,
                       row.stddev, row.median);
    out += fmt::format(
        "{},{},{:.6f},{:.6f},{},{}\n", row.bytes_per_token, row.bytes_are_bound,
        row.gb_per_s, row.roof_gb_per_s, row.in_cache,
        percent.has_value() ? fmt::format("{:.3f}", *percent) : "");
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
