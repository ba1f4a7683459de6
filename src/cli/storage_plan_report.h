// What `plan` and runs with a plan say of models larger than memory.
#ifndef THERMOCLINE_CLI_STORAGE_PLAN_REPORT_H_
#define THERMOCLINE_CLI_STORAGE_PLAN_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/storage_files.h"
#include "planner/storage_plan.h"

namespace thermocline::cli {

struct StoragePlanReport {
  std::string machine;
  uint64_t ram = 0;
  int64_t context = 0;
  std::string mode;
  std::string source;  // of the misses
  planner::StoragePlan plan;
  uint64_t least_ram = 0, all_ram = 0;
  uint64_t dense_prompt_from = 0;  // tokens; 0: never
  double prompt_512_seconds = 0.0;
  // Asked for, and the least budget that reaches it (0: none does).
  std::optional<std::pair<double, uint64_t>> min_speed;
  // Other budgets and their tokens/s, ascending.
  std::vector<std::pair<uint64_t, double>> by_ram;
};

std::string FormatStoragePlanReport(const StoragePlanReport& report,
                                    const planner::StorageMachine& machine,
                                    bool explain);

// "predicted 43.1 tok/s (812.0 misses a token), measured 41.0 (798.4)"; without
// misses where none are counted.
std::string FormatPrediction(const planner::StoragePlanFile& plan,
                             double measured_tokens_per_s,
                             std::optional<double> measured_misses);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_STORAGE_PLAN_REPORT_H_
