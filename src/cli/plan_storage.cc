#include "cli/plan_storage.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/units.h"
#include "cli/flags.h"
#include "cli/output_file.h"
#include "cli/parse_text.h"
#include "cli/standard_io.h"
#include "cli/storage_host.h"
#include "cli/storage_plan_report.h"
#include "cli/storage_problem.h"
#include "cli/terminal.h"
#include "model/profile_file.h"
#include "os/file.h"
#include "os/thread_pool.h"
#include "os/topology.h"
#include "planner/plan_text.h"
#include "planner/storage_files.h"
#include "residency/policy.h"

namespace thermocline::cli {
namespace {

constexpr int kBudgetsShown = 6;

std::vector<std::string> AllPolicies() {
  std::vector<std::string> names;
  for (const residency::PolicyInfo& policy : residency::Policies()) {
    names.emplace_back(policy.name);
  }
  return names;
}

// Of what most of a layer's bytes are.
DType TypeOfWeights(const model::Model& model) {
  const model::LayerWeights& layer = model.weights().layers.front();
  const model::FfnMatrices& ffn =
      layer.ffn.experts.empty() ? layer.ffn : layer.ffn.experts.front();
  for (const TensorView* view : {&ffn.up, &layer.attention.q}) {
    if (*view) return view->dtype;
  }
  return DType::kF16;
}

Result<planner::StorageMachine> MachineFor(const SessionFlags& session,
                                           const model::Model& model) {
  if (session.device.machine) {
    return planner::ReadStorageMachine(*session.device.machine);
  }
  ProgressLine progress;
  auto machine = MeasureStorageHost({.path = model.file().path(),
                                     .dtype = TypeOfWeights(model),
                                     .isa = session.isa,
                                     .progress = progress.callback()});
  progress.Clear();
  return machine;
}

planner::CoreLimits LimitsOf(const PlanStorageFlags& flags,
                             const SessionFlags& session) {
  planner::CoreLimits limits = {.cpus = flags.cpus};
  if (flags.most_threads) {
    limits.most_threads = static_cast<uint32_t>(*flags.most_threads);
  } else if (session.num_threads > 0) {
    limits.most_threads = static_cast<uint32_t>(session.num_threads);
  } else if (!session.device.machine) {
    // Fewer than cores under a quota.
    limits.most_threads =
        static_cast<uint32_t>(os::ReadTopology().num_default_threads());
  }
  return limits;
}

StorageQuestion QuestionOf(const PlanStorageFlags& flags,
                           const SessionFlags& session) {
  StorageQuestion question = {.limits = LimitsOf(flags, session),
                              .trace_path = flags.trace_path,
                              .counts_path = session.device.counts_path};
  if (!session.policy.empty()) {
    question.policies = {session.policy};
  } else if (flags.trace_path) {
    // Drawn tokens do not tell policies apart: a trace does.
    question.policies = AllPolicies();
  }
  return question;
}

planner::StoragePlanFile FileOf(const StoragePlanReport& report,
                                const model::Model& model) {
  const planner::StoragePlan& plan = report.plan;
  return {.model = model::FingerprintOf(model),
          .machine = report.machine,
          .budget = report.ram,
          .context = static_cast<uint64_t>(report.context),
          .mode = report.mode,
          .unit = plan.chosen.unit,
          .policy = plan.chosen.policy,
          .compute_cpus = {plan.compute_cpus.begin(), plan.compute_cpus.end()},
          .io_cpus = {plan.io_cpus.begin(), plan.io_cpus.end()},
          .cache_bytes = plan.chosen.cache_bytes,
          .seconds = plan.cost.seconds,
          .num_missed = plan.cost.num_missed,
          .read_bytes = plan.cost.read_bytes};
}

// What other budgets would give, for `explain` and a least speed.
Status AddOthers(const PlanStorageFlags& flags, bool explain,
                 StorageProblem& problem, StoragePlanReport& report) {
  const auto seconds_of = [&](uint64_t ram) -> Result<double> {
    TC_ASSIGN_OR_RETURN(const planner::StoragePlan plan, problem.Plan(ram));
    return plan.cost.seconds;
  };
  const uint64_t most = report.all_ram;
  if (flags.min_speed) {
    const uint64_t step =
        std::max<uint64_t>(kMiB, (most - report.least_ram) / 256);
    TC_ASSIGN_OR_RETURN(
        const uint64_t ram,
        planner::LeastBudget(report.least_ram, most, step,
                             1.0 / *flags.min_speed, seconds_of));
    report.min_speed.emplace(*flags.min_speed, ram);
  }
  for (int i = 0; explain && i < kBudgetsShown; ++i) {
    const uint64_t ram = report.least_ram + (most - report.least_ram) *
                                                static_cast<uint64_t>(i) /
                                                (kBudgetsShown - 1);
    TC_ASSIGN_OR_RETURN(const double seconds, seconds_of(ram));
    report.by_ram.emplace_back(ram, 1.0 / seconds);
  }
  return {};
}

Result<StoragePlanReport> Solve(const PlanStorageFlags& flags,
                                const SessionFlags& session, bool explain,
                                const planner::StorageMachine& machine,
                                const model::Model& model) {
  ProgressLine progress;
  SessionFlags host = session;
  host.device = {};  // its machine and counts are not a device's here
  host.dense_prefill = SessionFlags().dense_prefill;
  TC_ASSIGN_OR_RETURN(const engine::SessionOptions options,
                      MakeSessionOptions(host, model.config(), progress));
  TC_ASSIGN_OR_RETURN(StorageProblem problem,
                      StorageProblem::Create(&model, options, &machine,
                                             QuestionOf(flags, session)));
  StoragePlanReport report = {.machine = machine.name,
                              .ram = *session.ram,
                              .context = problem.context(),
                              .mode = std::string(NameOf(problem.mode())),
                              .source = problem.source()};
  TC_ASSIGN_OR_RETURN(report.plan, problem.Plan(*session.ram));
  TC_ASSIGN_OR_RETURN(report.least_ram, problem.LeastRam());
  TC_ASSIGN_OR_RETURN(report.all_ram, problem.AllRam());
  if (report.plan.chosen.unit == engine::NameOf(engine::StreamUnit::kLayers)) {
    engine::TellOfPolicy(session.policy);
  }
  // Slots for two layers may be more than a small model.
  report.least_ram = std::min(report.least_ram, report.all_ram);
  const planner::StoragePlan& plan = report.plan;
  report.dense_prompt_from = planner::DensePromptPays(
      machine, plan.chosen.model, plan.cores, plan.cost.seconds);
  report.prompt_512_seconds =
      planner::PromptSeconds(machine, plan.chosen.model, plan.cores, 512);
  TC_RETURN_IF_ERROR(AddOthers(flags, explain, problem, report));
  return report;
}

Status StoreCpus(const std::string& text, std::vector<int>& cpus) {
  const auto parsed = planner::ParseRuns(text, planner::kMaxCpu);
  if (!parsed || parsed->empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "'{}' is no list of CPUs, ascending, as 0-3,6", text);
  }
  cpus.assign(parsed->begin(), parsed->end());
  return {};
}

}  // namespace

void AddPlanStorageFlags(CLI::App& app, PlanStorageFlags& flags) {
  AddParsed(app, "--cpus", "LIST",
            "With --ram alone: CPUs that may be used, as 0-3,6 (default: all)",
            [&flags](const std::string& text) {
              return StoreCpus(text, flags.cpus);
            });
  AddInt(app, "--threads-max", flags.most_threads, 1,
         os::ThreadPool::kMaxThreads,
         "Likewise: threads that compute and read, at most (default: one per "
         "physical core)");
  AddParsed(app, "--min-speed", "X",
            "Likewise: also the least RAM for so many tokens a second",
            [&flags](const std::string& text) -> Status {
              TC_ASSIGN_OR_RETURN(flags.min_speed, ParseFloat(text, 1e-3, 1e6));
              return {};
            });
  AddPath(app, "--trace", flags.trace_path, "TRACE",
          "Likewise: who fires, by `trace -o`, for what a cache misses "
          "(default: drawn from the counts of the profile)");
  AddPath(app, "--save-machine", flags.save_machine_path, "FILE",
          "Likewise: writes what was measured, for --machine");
}

bool PlansForStorage(const SessionFlags& session) {
  DeviceFlags device = session.device;
  device.counts_path.reset();
  device.machine.reset();
  if (!session.ram || WantsDevice(device)) return false;
  if (!session.device.machine) return true;
  const auto text =
      os::ReadFile(*session.device.machine, planner::kMaxStorageFileBytes);
  return text && planner::IsStorageMachine(*text);
}

Status PlanStorageFor(const PlanStorageFlags& flags, const model::Model& model,
                      std::vector<std::string> inputs,
                      const SessionFlags& session, bool explain,
                      const std::optional<std::string>& output_path) {
  if (flags.trace_path) inputs.push_back(*flags.trace_path);
  std::vector<std::string> outputs;
  for (const auto& path : {output_path, flags.save_machine_path}) {
    if (path) outputs.push_back(*path);
  }
  TC_RETURN_IF_ERROR(CheckOutputs(outputs, inputs));
  TC_ASSIGN_OR_RETURN(const planner::StorageMachine machine,
                      MachineFor(session, model));
  TC_ASSIGN_OR_RETURN(const StoragePlanReport report,
                      Solve(flags, session, explain, machine, model));
  if (output_path) {
    TC_RETURN_IF_ERROR(
        planner::WriteStoragePlan(FileOf(report, model), *output_path));
  }
  if (flags.save_machine_path) {
    TC_RETURN_IF_ERROR(
        planner::WriteStorageMachine(machine, *flags.save_machine_path));
  }
  return WriteReport(FormatStoragePlanReport(report, machine, explain),
                     outputs);
}

}  // namespace thermocline::cli
