#include "cli/planned_storage.h"

#include <algorithm>
#include <vector>

#include "base/quote.h"
#include "base/units.h"
#include "cli/storage_host.h"
#include "cli/storage_plan_report.h"
#include "cli/storage_problem.h"
#include "engine/left_tensors.h"
#include "os/affinity.h"
#include "os/topology.h"

namespace thermocline::cli {
namespace {

using planner::StoragePlanFile;

// Of what the flags say besides the plan.
Status CheckFlagsFor(const StoragePlanFile& plan, const SessionFlags& flags) {
  const std::string& path = *flags.device.storage_plan_path;
  const std::string machine = StorageHostName();
  if (plan.machine != machine) {
    return Fail(ErrorCode::kInvalidArgument, "{}: a plan for {}, not for {}",
                path, Quote(plan.machine), Quote(machine));
  }
  if (flags.ram && *flags.ram != plan.budget) {
    return Fail(ErrorCode::kInvalidArgument, "{}: a plan for {} of RAM, not {}",
                path, FormatBytes(plan.budget), FormatBytes(*flags.ram));
  }
  const std::string_view mode = NameOf(flags.ffn);
  if (flags.ffn != engine::FfnMode::kAuto && plan.mode != mode) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: a plan for FFNs in mode {}, not {}", path,
                Quote(plan.mode), Quote(mode));
  }
  if (flags.unit && plan.unit != NameOf(*flags.unit)) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: in its plan {} come from the file, not {}", path,
                Quote(plan.unit), Quote(NameOf(*flags.unit)));
  }
  if (WantsDevice(flags.device)) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: a plan for memory alone, and a device is asked for", path);
  }
  return {};
}

Result<std::optional<StoragePlanFile>> PlanOf(const SessionFlags& flags) {
  if (!flags.device.storage_plan_path) return std::optional<StoragePlanFile>();
  TC_ASSIGN_OR_RETURN(
      StoragePlanFile plan,
      planner::ReadStoragePlan(*flags.device.storage_plan_path));
  return std::optional<StoragePlanFile>(std::move(plan));
}

}  // namespace

Result<SessionFlags> WithStoragePlan(const SessionFlags& flags) {
  TC_ASSIGN_OR_RETURN(const std::optional<StoragePlanFile> plan, PlanOf(flags));
  SessionFlags planned = flags;
  if (!plan) return planned;
  TC_RETURN_IF_ERROR(CheckFlagsFor(*plan, flags));
  planned.ram = plan->budget;
  if (planned.num_threads == 0) {
    planned.num_threads = static_cast<int64_t>(plan->compute_cpus.size());
  }
  if (planned.policy.empty()) planned.policy = plan->policy;
  for (const engine::StreamUnit unit :
       {engine::StreamUnit::kRecords, engine::StreamUnit::kExperts}) {
    if (!planned.unit && plan->unit == engine::NameOf(unit)) {
      planned.unit = unit;
      planned.unit_is_planned = true;
    }
  }
  if (!planned.context) planned.context = static_cast<int64_t>(plan->context);
  return planned;
}

Status RefuseStoragePlan(const SessionFlags& flags, std::string_view why) {
  if (!flags.device.storage_plan_path) return {};
  return Fail(ErrorCode::kInvalidArgument,
              "{}: a plan for a model of which a part stays in its file, but "
              "{}, so that all of it has to be in memory",
              *flags.device.storage_plan_path, why);
}

Status CheckStoragePlanFor(const SessionFlags& flags,
                           const model::Model& model) {
  TC_ASSIGN_OR_RETURN(const std::optional<StoragePlanFile> plan, PlanOf(flags));
  if (!plan) return {};
  const std::string& path = *flags.device.storage_plan_path;
  TC_RETURN_IF_ERROR(
      model::CheckSameModel(plan->model, model, path + ": was made"));
  const auto left = engine::LeftOf(model.file(), model.config(),
                                   model.file().held().left_out);
  const std::string unit = UnitName(left);
  // Experts may come as records: a session finds out.
  const bool by_neurons = left && left->unit == engine::StreamUnit::kExperts &&
                          plan->unit == "records";
  if (unit == plan->unit || by_neurons) return {};
  return Fail(ErrorCode::kInvalidArgument,
              "{}: in its plan what stays in the file is {}, here {}: the file "
              "or the context is another",
              path, Quote(plan->unit), Quote(unit));
}

Status KeepToPlannedCpus(const SessionFlags& flags) {
  TC_ASSIGN_OR_RETURN(const std::optional<StoragePlanFile> plan, PlanOf(flags));
  if (!plan) return {};
  std::vector<int> cpus(plan->compute_cpus.begin(), plan->compute_cpus.end());
  cpus.insert(cpus.end(), plan->io_cpus.begin(), plan->io_cpus.end());
  std::ranges::sort(cpus);
  // A pool takes the first ones anyway, and leaves its caller where it is.
  std::vector<int> first;
  for (const os::Cpu& cpu : os::ReadTopology().cpus) {
    if (first.size() < cpus.size()) first.push_back(cpu.id);
  }
  std::ranges::sort(first);
  if (first == cpus) return {};
  auto on = os::OnCpus::Enter(cpus);
  if (!on) return Annotate(*flags.device.storage_plan_path, on.error());
  on->Keep();
  return {};
}

std::string DescribePrediction(const SessionFlags& flags,
                               double measured_tokens_per_s,
                               std::optional<double> measured_misses) {
  const auto plan = PlanOf(flags);
  if (!plan || !*plan) return "";
  return FormatPrediction(**plan, measured_tokens_per_s, measured_misses);
}

}  // namespace thermocline::cli
