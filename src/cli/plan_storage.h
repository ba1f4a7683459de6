// `thermocline plan` with --ram alone: for models larger than memory.
#ifndef THERMOCLINE_CLI_PLAN_STORAGE_H_
#define THERMOCLINE_CLI_PLAN_STORAGE_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/session_flags.h"

namespace thermocline::cli {

struct PlanStorageFlags {
  std::vector<int> cpus;  // allowed; empty: all
  std::optional<int64_t> most_threads;
  std::optional<double> min_speed;
  std::optional<std::string> trace_path;
  std::optional<std::string> save_machine_path;

  bool any() const {
    return !cpus.empty() || most_threads || min_speed || trace_path ||
           save_machine_path;
  }
};

// --cpus, --threads-max, --min-speed, --trace, --save-machine.
void AddPlanStorageFlags(CLI::App& app, PlanStorageFlags& flags);

// Whether the flags ask for such a plan: --ram is there and nothing that a
// device does. --machine may be there, with the rates of storage.
bool PlansForStorage(const SessionFlags& session);

// Prints the plan, and writes it if output_path is there. Measures this
// machine, and the storage that the model's file is on, unless --machine names
// another. `inputs` are no outputs. Requires PlansForStorage. Errors of
// MeasureStorageHost, ReadStorageMachine, StorageProblem and writing.
Status PlanStorageFor(const PlanStorageFlags& flags, const model::Model& model,
                      std::vector<std::string> inputs,
                      const SessionFlags& session, bool explain,
                      const std::optional<std::string>& output_path);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_PLAN_STORAGE_H_
