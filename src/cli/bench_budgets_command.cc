// `thermocline bench --ram A,B`: speed at several budgets of memory.
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/units.h"
#include "bench/budget_bench.h"
#include "cli/bench_commands.h"
#include "cli/devices_report.h"
#include "cli/flags.h"
#include "cli/open_model.h"
#include "cli/standard_io.h"
#include "cli/terminal.h"

namespace thermocline::cli {
namespace {

// For the prompts' ids, and how long they are.
Result<BenchTest> ReadTest(const BenchFlags& flags,
                           const BenchPromptFlags& prompts,
                           ProgressLine& progress) {
  ModelFlags mapped = flags.model;
  mapped.hold = {};
  mapped.check_tensors = false;
  TC_ASSIGN_OR_RETURN(const auto model, OpenModel(mapped, progress));
  return ReadBenchTest(flags, prompts, *model);
}

Result<bench::BudgetRow> MeasureBudget(const BenchFlags& flags, uint64_t ram,
                                       engine::StorageMode storage,
                                       int64_t context,
                                       bench::BudgetBenchOptions& options,
                                       ProgressLine& progress) {
  BenchFlags of_one = flags;
  of_one.session.rams.clear();
  of_one.session.ram = ram;
  of_one.session.storage = {storage};
  TC_ASSIGN_OR_RETURN(const auto model,
                      OpenForBench(of_one, progress, [=](const model::Config&) {
                        return context;
                      }));
  TC_ASSIGN_OR_RETURN(
      options.session,
      MakeSessionOptions(of_one.session, model->config(), progress));
  options.session.context = context;
  if (!flags.threads.empty()) {
    options.session.num_threads = static_cast<int>(flags.threads.front());
  }
  TC_ASSIGN_OR_RETURN(bench::BudgetRow row,
                      bench::RunBudgetBench(model, options));
  row.storage = engine::NameOf(storage);
  return row;
}

// A row for each budget and mode. What a budget is too small for is a warning,
// and an error where nothing else is left.
Result<std::vector<bench::BudgetRow>> MeasureBudgets(
    const BenchFlags& flags, int64_t context,
    bench::BudgetBenchOptions& options, ProgressLine& progress) {
  const LogOnceScope log_once;
  std::vector<uint64_t> rams = flags.session.rams;
  if (rams.empty()) rams.push_back(flags.session.ram.value());
  std::vector<bench::BudgetRow> rows;
  Status last_error;
  for (const uint64_t ram : rams) {
    for (const engine::StorageMode storage : flags.session.storage) {
      auto row = MeasureBudget(flags, ram, storage, context, options, progress);
      if (!row && (row.error().code == ErrorCode::kResourceExhausted ||
                   row.error().code == ErrorCode::kUnsupported)) {
        progress.Clear();
        LogWarning("{}: {}", FormatBytes(ram), row.error().message);
        last_error = tl::unexpected(row.error());
        continue;
      }
      TC_RETURN_IF_ERROR(row);
      rows.push_back(*std::move(row));
    }
  }
  if (rows.empty()) return tl::unexpected(last_error.error());
  return rows;
}

}  // namespace

void CheckBudgetFlags(const CLI::App& app, const BenchFlags& flags,
                      const BenchPromptFlags& prompts) {
  if (WantsDevice(flags.session.device)) {
    throw CLI::ValidationError(
        "--ram", "of several budgets, and a device: one at a time");
  }
  for (const char* name :
       {"--n-depth", "--repetitions", "--profile", "--tokens-csv", "--np",
        "--time-only", "--placement"}) {
    if (app.get_option(name)->count() == 0) continue;
    throw CLI::ValidationError(
        DisplayNames(app.get_option(name)->get_name(false, true)),
        "has no effect with several budgets of --ram");
  }
  const bool has_many = prompts.path ? prompts.tests.size() > 1
                                     : flags.prompt_lengths.size() > 1 ||
                                           flags.generate_lengths.size() > 1;
  if (has_many || flags.threads.size() > 1) {
    throw CLI::ValidationError(
        "with several budgets of --ram these are compared: one length and "
        "number of threads at a time");
  }
}

Status RunBudgets(const BenchFlags& flags, const BenchPromptFlags& prompts) {
  ProgressLine progress;
  TC_ASSIGN_OR_RETURN(BenchTest test, ReadTest(flags, prompts, progress));
  const int64_t context = test.num_positions();
  bench::BudgetBenchOptions options = {.prompts = std::move(test.prompts),
                                       .source = std::move(test.source),
                                       .test = test.test,
                                       .session = {},
                                       .progress = progress.callback()};
  TC_ASSIGN_OR_RETURN(const HostReads host, MeasureHost());
  options.host_rate = 1e9 * host.gb_per_s;
  const auto rows = MeasureBudgets(flags, context, options, progress);
  progress.Clear();
  TC_RETURN_IF_ERROR(rows);
  return WriteStdout(bench::FormatBudgetBench(*rows, flags.format));
}

}  // namespace thermocline::cli
