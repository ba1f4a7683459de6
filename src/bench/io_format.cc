#include "bench/io_format.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/units.h"

namespace thermocline::bench {
namespace {

using IoJson = nlohmann::ordered_json;
using probe::StorageRate;

// "4 KiB", "2 MiB": sizes that are powers of two mostly.
std::string SizeCell(uint64_t num_bytes) {
  if (num_bytes % kGiB == 0) return fmt::format("{} GiB", num_bytes / kGiB);
  if (num_bytes % kMiB == 0) return fmt::format("{} MiB", num_bytes / kMiB);
  if (num_bytes % kKiB == 0) return fmt::format("{} KiB", num_bytes / kKiB);
  return fmt::format("{} B", num_bytes);
}

std::string IoTable(const IoReport& report) {
  std::string out = fmt::format(
      "| {:<10} | {:>9} | {:>8} | {:>5} | {:>9} | {:>8} | {:>9} | {:>9} | "
      "{:>9} |\n"
      "| {:-<10} | {:->8}: | {:->7}: | {:->4}: | {:->8}: | {:->7}: | {:->8}: | "
      "{:->8}: | {:->8}: |\n",
      "order", "range", "block", "depth", "reads/s", "MB/s", "mean us",
      "P50 us", "P99 us", "", "", "", "", "", "", "", "", "");
  for (const StorageRate& rate : report.rates.rates) {
    out += fmt::format(
        "| {:<10} | {:>9} | {:>8} | {:>5} | {:>9.0f} | {:>8.1f} | {:>9.1f} | "
        "{:>9.1f} | {:>9.1f} |\n",
        rate.is_random ? "random" : "sequential", SizeCell(rate.range_bytes),
        SizeCell(rate.block_bytes), rate.depth, rate.reads_per_s(),
        rate.mb_per_s(), rate.mean_us, rate.p50_us, rate.p99_us);
  }
  return out;
}

std::string IoNote(const IoReport& report) {
  const probe::StorageRates& rates = report.rates;
  return fmt::format(
      "\n{}{}, {}, read by {} {}\n", report.is_made ? "a file made in " : "",
      report.path, FormatBytes(rates.file_bytes), rates.reader,
      rates.is_direct()
          ? fmt::format("past the page cache (O_DIRECT, multiples of {} bytes)",
                        rates.alignment)
          : "through the page cache, since its file system has no O_DIRECT: "
            "what is read again comes from memory");
}

IoJson RateJson(const StorageRate& rate) {
  return {{"order", rate.is_random ? "random" : "sequential"},
          {"range_bytes", rate.range_bytes},
          {"block_bytes", rate.block_bytes},
          {"depth", rate.depth},
          {"num_reads", rate.num_reads},
          {"seconds", rate.seconds},
          {"reads_per_s", rate.reads_per_s()},
          {"mb_per_s", rate.mb_per_s()},
          {"mean_us", rate.mean_us},
          {"p50_us", rate.p50_us},
          {"p99_us", rate.p99_us}};
}

std::string IoReportJson(const IoReport& report) {
  IoJson rows = IoJson::array();
  for (const StorageRate& rate : report.rates.rates) {
    rows.push_back(RateJson(rate));
  }
  const IoJson all = {{"build_commit", report.build},
                      {"cpu_info", report.cpu},
                      {"path", report.path},
                      {"is_made", report.is_made},
                      {"file_bytes", report.rates.file_bytes},
                      {"reader", report.rates.reader},
                      {"is_direct", report.rates.is_direct()},
                      {"alignment", report.rates.alignment},
                      {"rows", rows}};
  // Paths are any bytes; JSON is UTF-8.
  return all.dump(2, ' ', false, IoJson::error_handler_t::replace) + "\n";
}

std::string IoReportCsv(const IoReport& report) {
  std::string out =
      "order,range_bytes,block_bytes,depth,num_reads,seconds,reads_per_s,"
      "mb_per_s,mean_us,p50_us,p99_us,reader,is_direct\n";
  for (const StorageRate& rate : report.rates.rates) {
    out += fmt::format(
        "{},{},{},{},{},{:.9g},{:.9g},{:.9g},{:.9g},{:.9g},{:.9g},{},{}\n",
        rate.is_random ? "random" : "sequential", rate.range_bytes,
        rate.block_bytes, rate.depth, rate.num_reads, rate.seconds,
        rate.reads_per_s(), rate.mb_per_s(), rate.mean_us, rate.p50_us,
        rate.p99_us, report.rates.reader, report.rates.is_direct());
  }
  return out;
}

}  // namespace

std::string FormatIo(const IoReport& report, BenchFormat format) {
  switch (format) {
    case BenchFormat::kMarkdown:
      return IoTable(report) + IoNote(report);
    case BenchFormat::kJson:
      return IoReportJson(report);
    case BenchFormat::kCsv:
      return IoReportCsv(report);
  }
  return {};
}

}  // namespace thermocline::bench
