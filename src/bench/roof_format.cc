#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "bench/limits.h"
#include "bench/roof.h"
#include "probe/rows_apart.h"

namespace thermocline::bench {
namespace {

std::string FormatReads(const RoofReport& report) {
  std::string out = fmt::format(
      "Sequential reads of {} (last-level cache {}{}):\n\n"
      "| {:>7} | {:>8} | {:>8} |\n| {:->6}: | {:->7}: | {:->7}: |\n",
      FormatBytes(report.probe_bytes),
      report.cache_bytes > 0 ? FormatBytes(report.cache_bytes) : "unknown",
      report.probe_is_capped
          ? "; memory is short for more, so a part may come from the cache"
          : "",
      "threads", "GB/s", "median", "", "", "");
  for (const ReadRow& row : report.reads) {
    out += fmt::format("| {:>7} | {:>8.2f} | {:>8.2f} |\n", row.num_threads,
                       row.gb_per_s, row.gb_per_s_median);
  }
  return out;
}

std::string FormatRowsApart(const RoofReport& report) {
  if (report.rows_apart.empty()) return "";
  std::string out = fmt::format(
      "\nRows of {} bytes apart, one in {}:\n\n"
      "| {:>7} | {:>8} | {:>8} | {:>13} |\n"
      "| {:->6}: | {:->7}: | {:->7}: | {:->12}: |\n",
      report.row_bytes, probe::kRowsPerRead, "threads", "GB/s", "median",
      "of sequential", "", "", "", "");
  for (size_t i = 0; i < report.rows_apart.size(); ++i) {
    const ReadRow& row = report.rows_apart[i];
    out += fmt::format("| {:>7} | {:>8.2f} | {:>8.2f} | {:>11.1f} % |\n",
                       row.num_threads, row.gb_per_s, row.gb_per_s_median,
                       100 * row.gb_per_s / report.reads[i].gb_per_s);
  }
  return out;
}

std::string MemoryCell(const ProductRow& row, const RoofReport& report) {
  if (row.threads_to_memory.has_value()) {
    return fmt::format("{}", *row.threads_to_memory);
  }
  int most = 0;
  for (const ReadRow& read : report.reads) {
    most = std::max(most, read.num_threads);
  }
  return fmt::format("> {}", most);
}

std::string FormatProducts(const RoofReport& report) {
  if (report.products.empty()) return "";
  std::string out = fmt::format(
      "\nProducts in the cache on one thread, {}; memory limits decoding from "
      "so many threads on:\n\n"
      "| {:<5} | {:>8} | {:>8} | {:>12} | {:>17} | {:<6} |\n"
      "| {:-<5} | {:->7}: | {:->7}: | {:->11}: | {:->16}: | {:-<6} |\n",
      report.isa, "type", "GB/s", "GMAC/s", "memory from", "512 tokens GMAC/s",
      "by", "", "", "", "", "", "");
  for (const ProductRow& row : report.products) {
    out += fmt::format(
        "| {:<5} | {:>8.2f} | {:>8.2f} | {:>12} | {:>17.2f} | {:<6} |\n",
        NameOf(row.dtype), row.one.gb_per_s, row.one.gmac_per_s,
        MemoryCell(row, report), row.many.gmac_per_s,
        row.many.is_batch ? "batch" : "dot");
  }
  return out;
}

// Requires products.
LimitKind LimitOf(const ModelRow& row) {
  return row.memory_tokens_per_s <= *row.arithmetic_tokens_per_s
             ? LimitKind::kMemory
             : LimitKind::kArithmetic;
}

// Memory alone, where products were not measured.
std::string FormatMemoryLimits(const RoofReport& report) {
  std::string out = fmt::format(
      "\n{}, {} of weights per token; tokens per second that memory allows:\n\n"
      "| {:>7} | {:>10} |\n| {:->6}: | {:->9}: |\n",
      report.model_path, FormatBytes(report.bytes_per_token), "threads",
      "memory", "", "");
  for (const ModelRow& row : report.models) {
    out += fmt::format("| {:>7} | {:>10.2f} |\n", row.num_threads,
                       row.memory_tokens_per_s);
  }
  return out;
}

std::string FormatModels(const RoofReport& report) {
  if (report.models.empty()) return "";
  if (!report.models.front().arithmetic_tokens_per_s) {
    return FormatMemoryLimits(report);
  }
  std::string out = fmt::format(
      "\n{}, {} of weights per token; tokens per second at most:\n\n"
      "| {:>7} | {:>10} | {:>10} | {:<10} | {:>10} |\n"
      "| {:->6}: | {:->9}: | {:->9}: | {:-<10} | {:->9}: |\n",
      report.model_path, FormatBytes(report.bytes_per_token), "threads",
      "memory", "arithmetic", "limit", "prefill", "", "", "", "", "");
  for (const ModelRow& row : report.models) {
    out += fmt::format(
        "| {:>7} | {:>10.2f} | {:>10.2f} | {:<10} | {:>10.2f} |\n",
        row.num_threads, row.memory_tokens_per_s, *row.arithmetic_tokens_per_s,
        NameOf(LimitOf(row)), *row.prefill_tokens_per_s);
  }
  return out;
}

std::string FormatJson(const RoofReport& report) {
  using Json = nlohmann::ordered_json;
  Json reads = Json::array();
  for (const ReadRow& row : report.reads) {
    reads.push_back({{"n_threads", row.num_threads},
                     {"gb_per_s", row.gb_per_s},
                     {"gb_per_s_median", row.gb_per_s_median}});
  }
  Json rows_apart = Json::array();
  for (const ReadRow& row : report.rows_apart) {
    rows_apart.push_back({{"n_threads", row.num_threads},
                          {"row_bytes", report.row_bytes},
                          {"gb_per_s", row.gb_per_s},
                          {"gb_per_s_median", row.gb_per_s_median}});
  }
  Json products = Json::array();
  for (const ProductRow& row : report.products) {
    products.push_back({{"type", NameOf(row.dtype)},
                        {"gb_per_s", row.one.gb_per_s},
                        {"gmac_per_s", row.one.gmac_per_s},
                        {"memory_from_n_threads", nullptr},
                        {"gmac_per_s_512", row.many.gmac_per_s},
                        {"is_batch_512", row.many.is_batch}});
    if (row.threads_to_memory.has_value()) {
      products.back()["memory_from_n_threads"] = *row.threads_to_memory;
    }
  }
  Json models = Json::array();
  for (const ModelRow& row : report.models) {
    models.push_back({{"n_threads", row.num_threads},
                      {"memory_ts", row.memory_tokens_per_s},
                      {"arithmetic_ts", nullptr},
                      {"limit", nullptr},
                      {"prefill_ts", nullptr}});
    if (!row.arithmetic_tokens_per_s) continue;
    models.back()["arithmetic_ts"] = *row.arithmetic_tokens_per_s;
    models.back()["limit"] = NameOf(LimitOf(row));
    models.back()["prefill_ts"] = *row.prefill_tokens_per_s;
  }
  const Json all = {{"build_commit", report.build},
                    {"cpu_info", report.cpu},
                    {"isa", report.isa},
                    {"cache_bytes", report.cache_bytes},
                    {"probe_bytes", report.probe_bytes},
                    {"probe_is_capped", report.probe_is_capped},
                    {"reads", reads},
                    {"rows_apart", rows_apart},
                    {"products", products},
                    {"model_filename", report.model_path},
                    {"bytes_per_token", report.bytes_per_token},
                    {"model", models}};
  // Paths and names are any bytes; JSON is UTF-8.
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// One line per number.
std::string FormatCsv(const RoofReport& report) {
  std::string out = "what,type,n_threads,n_tokens,value,unit\n";
  for (const ReadRow& row : report.reads) {
    out +=
        fmt::format("read,,{},,{:.6f},GB/s\n", row.num_threads, row.gb_per_s);
  }
  for (const ReadRow& row : report.rows_apart) {
    out += fmt::format("rows apart,,{},,{:.6f},GB/s\n", row.num_threads,
                       row.gb_per_s);
  }
  for (const ProductRow& row : report.products) {
    const std::string_view type = NameOf(row.dtype);
    out += fmt::format("product,{},1,1,{:.6f},GB/s\n", type, row.one.gb_per_s);
    out +=
        fmt::format("product,{},1,1,{:.6f},GMAC/s\n", type, row.one.gmac_per_s);
    out += fmt::format("product,{},1,512,{:.6f},GMAC/s\n", type,
                       row.many.gmac_per_s);
  }
  for (const ModelRow& row : report.models) {
    out += fmt::format("memory,,{},1,{:.6f},tokens/s\n", row.num_threads,
                       row.memory_tokens_per_s);
    if (!row.arithmetic_tokens_per_s) continue;
    out += fmt::format("arithmetic,,{},1,{:.6f},tokens/s\n", row.num_threads,
                       *row.arithmetic_tokens_per_s);
    out += fmt::format("arithmetic,,{},512,{:.6f},tokens/s\n", row.num_threads,
                       *row.prefill_tokens_per_s);
  }
  return out;
}

}  // namespace

std::string FormatRoof(const RoofReport& report, BenchFormat format) {
  switch (format) {
    case BenchFormat::kMarkdown:
      return FormatReads(report) + FormatRowsApart(report) +
             FormatProducts(report) + FormatModels(report);
    case BenchFormat::kJson:
      return FormatJson(report);
    case BenchFormat::kCsv:
      return FormatCsv(report);
  }
  return {};
}

}  // namespace thermocline::bench
