// Sessions of models larger than memory that run as a plan says.
#ifndef THERMOCLINE_CLI_PLANNED_STORAGE_H_
#define THERMOCLINE_CLI_PLANNED_STORAGE_H_

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "cli/session_flags.h"
#include "model/model.h"
#include "planner/storage_files.h"

namespace thermocline::cli {

// The flags, with the threads, the policy, the budget and the context of
// flags.device.storage_plan_path where they have none themselves; without a
// plan as they are. Errors of planner::ReadStoragePlan; kInvalidArgument: a
// plan for another machine, budget or mode than the flags', or a device.
Result<SessionFlags> WithStoragePlan(const SessionFlags& flags);

// kInvalidArgument: flags with such a plan, of a command that needs all weights
// in memory; `why`, as "'eval sparsity' looks at all gates".
Status RefuseStoragePlan(const SessionFlags& flags, std::string_view why);

// Whether the flags' plan, if there is one, is of the model, which was opened
// as they say. kInvalidArgument, with what differs.
Status CheckStoragePlanFor(const SessionFlags& flags,
                           const model::Model& model);

// This thread, and those that it starts, keep to the plan's CPUs where those
// are not the ones that are taken anyway. Errors of os::OnCpus.
Status KeepToPlannedCpus(const SessionFlags& flags);

// The line at a run's end (storage_plan_report.h); nothing without a plan.
std::string DescribePrediction(const SessionFlags& flags,
                               double measured_tokens_per_s,
                               std::optional<double> measured_misses);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_PLANNED_STORAGE_H_
