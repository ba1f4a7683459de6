// `thermocline bench --device`: speed at several budgets of VRAM.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/hybrid_bench.h"
#include "bench/timed_bench.h"
#include "cli/bench_commands.h"
#include "cli/bench_placements.h"
#include "cli/devices_report.h"
#include "cli/flags.h"
#include "cli/open_model.h"
#include "cli/parse_text.h"
#include "cli/planned_placement.h"
#include "cli/prompt_file.h"
#include "cli/standard_io.h"
#include "cli/terminal.h"
#include "device/sim/machine.h"
#include "probe/device_rates.h"

namespace thermocline::cli {
namespace {

// A session of the host's alone, with what the flags say of the device.
Result<engine::SessionOptions> SessionFor(const SessionFlags& flags,
                                          const model::Config& config,
                                          ProgressLine& progress) {
  SessionFlags on_host = flags;
  on_host.device = {};
  TC_ASSIGN_OR_RETURN(engine::SessionOptions session,
                      MakeSessionOptions(on_host, config, progress));
  session.placement = flags.device.rules;
  session.on_device_loss = flags.device.on_loss;
  if (flags.device.plan_path) {
    TC_RETURN_IF_ERROR(UsePlan(flags.device, session));
  }
  return session;
}

// Measured; a simulated machine says its own.
Result<std::optional<bench::HybridRates>> RatesOf(const DeviceFlags& flags) {
  if (flags.name == "sim") return std::nullopt;
  TC_ASSIGN_OR_RETURN(const auto device, OpenDevice(flags));
  TC_ASSIGN_OR_RETURN(const probe::DeviceRates rates,
                      probe::MeasureDevice(*device, RatesWithin(flags)));
  TC_ASSIGN_OR_RETURN(const HostReads host, MeasureHost());
  return bench::HybridRates{.device = rates.read_gb_per_s * 1e9,
                            .host = host.gb_per_s * 1e9};
}

// Those of the flags, or the session's: a plan's.
std::vector<std::optional<uint64_t>> BudgetsOf(
    const BenchFlags& flags, const engine::SessionOptions& session) {
  const std::vector<uint64_t>& vrams = flags.session.device.vrams;
  if (vrams.empty()) return {session.budget.vram};
  return {vrams.begin(), vrams.end()};
}

// `run` is asked once for each row, with its session and budget in `options`,
// bench::TimedBenchOptions or HybridBenchOptions.
template <typename Options, typename Run>
Status MeasureAndWrite(const BenchFlags& flags, const PlanInputs& inputs,
                       Options& options, ProgressLine& progress, Run&& run) {
  const auto rows = MeasurePlacements(flags.placements, inputs, options.session,
                                      BudgetsOf(flags, options.session),
                                      [&](const engine::SessionOptions& session,
                                          const std::optional<uint64_t>& vram) {
                                        options.session = session;
                                        options.vram = {vram};
                                        return run();
                                      });
  progress.Clear();
  TC_RETURN_IF_ERROR(rows);
  return WriteStdout(bench::FormatHybridBench(*rows, flags.format));
}

Status RunTimed(const BenchFlags& flags) {
  ProgressLine progress;
  TC_ASSIGN_OR_RETURN(auto model, OpenModel(flags.model, progress));
  if (flags.shape_type) {
    TC_ASSIGN_OR_RETURN(model, model->ShapeOf(*flags.shape_type));
  }
  const DeviceFlags of_one = OfAnyBudget(flags.session.device);
  TC_RETURN_IF_ERROR(CheckDeviceFlags(of_one));
  bench::TimedBenchOptions options;
  TC_ASSIGN_OR_RETURN(options.machine,
                      device::ReadMachine(*flags.session.device.machine));
  TC_ASSIGN_OR_RETURN(options.session,
                      SessionFor(flags.session, model->config(), progress));
  options.trace_path = *flags.trace_path;
  if (flags.depths.front() > 0) options.depth = flags.depths.front();
  if (flags.generate_given) {
    options.num_tokens = static_cast<uint64_t>(flags.generate_lengths.front());
  }
  options.progress = progress.callback();
  TC_ASSIGN_OR_RETURN(PlanInputs inputs, PlanInputsOf(of_one));
  inputs.candidates_per_fired = 1.0;  // the trace's sets are both
  return MeasureAndWrite(flags, inputs, options, progress,
                         [&] { return bench::RunTimedBench(model, options); });
}

}  // namespace

void CheckBenchDeviceFlags(const CLI::App& app, const BenchFlags& flags,
                           const BenchPromptFlags& prompts) {
  const bool is_timed = flags.trace_path.has_value();
  if (is_timed && flags.session.device.name != "sim") {
    throw CLI::ValidationError("--time-only", "goes with --device sim");
  }
  if (is_timed && (prompts.path || flags.prompt_given)) {
    throw CLI::ValidationError(
        "--time-only: the trace says which neurons fire, no prompt is run");
  }
  if (!flags.placements.empty() && flags.session.device.plan_path) {
    throw CLI::ValidationError(
        "--placement and --plan both say what lies on the device");
  }
  if (flags.shape_type && !is_timed) {
    throw CLI::ValidationError("--as", "goes with --time-only");
  }
  std::vector<const char*> without = {"--repetitions", "--profile",
                                      "--tokens-csv"};
  if (!is_timed) without.push_back("--n-depth");
  for (const char* name : without) {
    if (app.get_option(name)->count() == 0) continue;
    throw CLI::ValidationError(
        DisplayNames(app.get_option(name)->get_name(false, true)),
        "has no effect with --device");
  }
  const bool has_many = prompts.path ? prompts.tests.size() > 1
                                     : flags.prompt_lengths.size() > 1 ||
                                           flags.generate_lengths.size() > 1;
  if (has_many || flags.threads.size() > 1) {
    throw CLI::ValidationError(
        "with --device the budgets of --vram are compared: one length and "
        "number of threads at a time");
  }
  if (!prompts.path && flags.generate_lengths.front() < 3) {
    throw CLI::ValidationError(
        "-n: at least 3 with --device, whose first tokens bring things over");
  }
}

void AddBenchDeviceFlags(CLI::App& app, BenchFlags& flags) {
  AddPrefillDeviceFlags(app, flags.session.prefill_device);
  flags.session.prefill_device.keeps_programs = true;
  AddParsed(app, "--placement", "NAME,...",
            "With a device: what lies there, a row for each: native, ilp, "
            "frequency, dense-layers, sparse-layers, all-host, all-device, "
            "stream-dense, fetch-active, or all",
            [&flags](const std::string& text) -> Status {
              TC_ASSIGN_OR_RETURN(flags.placements, ParseMethods(text));
              return {};
            });
  AddPath(app, "--time-only", flags.trace_path, "TRACE",
          "With --device sim: nothing is computed, only timed, with the "
          "generated tokens of a trace; the weights are not read");
  AddParsed(app, "--as", "TYPE",
            "With --time-only: as if the matrices were of this type: f16, "
            "q8_0, q4_0, q4_k, q6_k",
            [&flags](const std::string& text) -> Status {
              for (const DType dtype : {DType::kF16, DType::kQ8_0, DType::kQ4_0,
                                        DType::kQ4_K, DType::kQ6_K}) {
                if (LowerName(dtype) == text) {
                  flags.shape_type = dtype;
                  return {};
                }
              }
              return NotOneOf(text, "f16, q8_0, q4_0, q4_k, q6_k");
            });
}

Status RunOnDevice(const BenchFlags& flags, const BenchPromptFlags& prompts) {
  if (flags.trace_path) return RunTimed(flags);
  ProgressLine progress;
  TC_ASSIGN_OR_RETURN(const auto model, OpenModel(flags.model, progress));
  bench::HybridBenchOptions options;
  TC_ASSIGN_OR_RETURN(options.session,
                      SessionFor(flags.session, model->config(), progress));
  TC_ASSIGN_OR_RETURN(BenchTest test, ReadBenchTest(flags, prompts, *model));
  options.session.context = test.num_positions();
  options.prompts = std::move(test.prompts);
  options.source = std::move(test.source);
  options.test = test.test;
  if (!flags.threads.empty()) {
    options.session.num_threads = static_cast<int>(flags.threads.front());
  }
  const DeviceFlags of_one = OfAnyBudget(flags.session.device);
  Timeline* const timeline = options.session.timeline;
  options.open_device = [=] { return OpenDevice(of_one, timeline); };
  TC_ASSIGN_OR_RETURN(options.rates, RatesOf(of_one));
  options.progress = progress.callback();
  TC_RETURN_IF_ERROR(CheckBenchFits(*model, options.session));
  TC_ASSIGN_OR_RETURN(const PlanInputs inputs, PlanInputsOf(of_one));
  return MeasureAndWrite(flags, inputs, options, progress,
                         [&] { return bench::RunHybridBench(model, options); });
}

}  // namespace thermocline::cli
