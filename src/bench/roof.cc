#include "bench/roof.h"

#include <algorithm>
#include <set>

#include "bench/limits.h"
#include "bench/samples.h"
#include "engine/session.h"
#include "os/memory.h"
#include "os/topology.h"
#include "probe/memory.h"

namespace thermocline::bench {
namespace {

constexpr int kReadRounds = 7;

std::vector<int> DefaultThreads() {
  const int num_cores = os::ReadTopology().num_default_threads();
  std::vector<int> threads;
  for (int n = 1; n < num_cores; n *= 2) threads.push_back(n);
  threads.push_back(num_cores);
  return threads;
}

ReadRow RowOf(int num_threads, const std::vector<double>& rates) {
  return {.num_threads = num_threads,
          .gb_per_s = std::ranges::max(rates),
          .gb_per_s_median = MedianOf(rates)};
}

// Into the report. In turns: what disturbs one kind of reading disturbs both.
Status MeasureRead(int num_threads, RoofReport& report) {
  TC_ASSIGN_OR_RETURN(
      auto probe, probe::ReadProbe::Create(num_threads, report.probe_bytes));
  std::vector<double> rates;
  std::vector<double> rates_apart;
  for (int round = 0; round < kReadRounds; ++round) {
    TC_ASSIGN_OR_RETURN(const double rate, probe.Measure(1));
    rates.push_back(rate);
    if (report.row_bytes == 0) continue;
    TC_ASSIGN_OR_RETURN(const double rate_apart,
                        probe.MeasureRowsApart(report.row_bytes, 1));
    rates_apart.push_back(rate_apart);
  }
  report.reads.push_back(RowOf(probe.num_threads(), rates));
  if (!rates_apart.empty()) {
    report.rows_apart.push_back(RowOf(probe.num_threads(), rates_apart));
  }
  return {};
}

// Those of a model's matrices, else all that can be computed.
std::set<DType> TypesToMeasure(const std::optional<ModelWork>& work) {
  std::set<DType> types;
  if (work.has_value()) {
    for (const TypeWork& row : work->layers) types.insert(row.dtype);
    types.insert(work->head.dtype);
    return types;
  }
  for (uint32_t id = 0; id <= static_cast<uint32_t>(DType::kMXFP4); ++id) {
    const DTypeInfo* info = FindDType(id);
    if (info != nullptr && info->can_compute) types.insert(info->dtype);
  }
  return types;
}

Result<ProductRow> MeasureType(DType dtype, KernelRates& rates,
                               const std::vector<ReadRow>& reads) {
  ProductRow row = {.dtype = dtype};
  TC_ASSIGN_OR_RETURN(row.one, rates.Of(dtype, 1));
  TC_ASSIGN_OR_RETURN(row.many, rates.Of(dtype, kManyTokens));
  for (const ReadRow& read : reads) {
    if (row.one.gb_per_s * read.num_threads < read.gb_per_s) continue;
    row.threads_to_memory = std::min(
        row.threads_to_memory.value_or(read.num_threads), read.num_threads);
  }
  return row;
}

// What products allow, beside what memory does.
Status AddArithmetic(const ModelWork& work, KernelRates& rates, ModelRow& row) {
  TC_ASSIGN_OR_RETURN(const Arithmetic decode,
                      ArithmeticOf(work, rates, {.num_generate = 1}, 1));
  TC_ASSIGN_OR_RETURN(
      const Arithmetic prefill,
      ArithmeticOf(work, rates, {.num_prompt = kManyTokens}, kManyTokens));
  row.arithmetic_tokens_per_s = row.num_threads / decode.seconds;
  row.prefill_tokens_per_s = kManyTokens * row.num_threads / prefill.seconds;
  return {};
}

}  // namespace

Result<RoofReport> MeasureRoof(const RoofOptions& options) {
  RoofReport report{.isa = std::string(NameOf(options.isa)),
                    .cache_bytes = probe::LastLevelCacheBytes()};
  if (options.model != nullptr) {
    report.bytes_per_token = engine::WeightBytesPerToken(*options.model);
  }
  const probe::ProbeSize size = probe::ProbeSizeFor(
      report.cache_bytes, os::ReadMemoryInfo().available_bytes,
      options.model != nullptr ? report.bytes_per_token : UINT64_MAX);
  report.probe_bytes =
      options.probe_bytes > 0 ? options.probe_bytes : size.num_bytes;
  report.probe_is_capped = options.probe_bytes == 0 && size.is_capped;
  report.row_bytes = options.row_bytes;

  std::optional<ModelWork> work;
  if (options.model != nullptr) work = WorkOf(*options.model);
  const std::set<DType> types =
      options.measure_products ? TypesToMeasure(work) : std::set<DType>();
  const std::vector<int> threads =
      options.threads.empty() ? DefaultThreads() : options.threads;
  const uint64_t num_steps = threads.size() + types.size();
  uint64_t num_done = 0;
  for (const int num_threads : threads) {
    TC_RETURN_IF_ERROR(MeasureRead(num_threads, report));
    ReportProgress(options.progress, "roof", ++num_done, num_steps);
  }
  KernelRates rates(options.isa);
  for (const DType dtype : types) {
    TC_ASSIGN_OR_RETURN(const ProductRow row,
                        MeasureType(dtype, rates, report.reads));
    report.products.push_back(row);
    ReportProgress(options.progress, "roof", ++num_done, num_steps);
  }
  if (!work.has_value()) return report;
  report.model_path = options.model->file().path();
  for (const ReadRow& read : report.reads) {
    ModelRow row = {
        .num_threads = read.num_threads,
        .memory_tokens_per_s =
            read.gb_per_s * 1e9 / static_cast<double>(report.bytes_per_token)};
    if (options.measure_products) {
      TC_RETURN_IF_ERROR(AddArithmetic(*work, rates, row));
    }
    report.models.push_back(row);
  }
  return report;
}

}  // namespace thermocline::bench
