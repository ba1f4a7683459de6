// Placements by name, side by side.
#ifndef THERMOCLINE_CLI_BENCH_PLACEMENTS_H_
#define THERMOCLINE_CLI_BENCH_PLACEMENTS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "bench/hybrid_bench.h"
#include "cli/planned_placement.h"
#include "engine/runtime.h"
#include "planner/named.h"

namespace thermocline::cli {

// Measures one session at one budget.
using MeasureOne = std::function<Result<std::vector<bench::HybridRow>>(
    const engine::SessionOptions& session,
    const std::optional<uint64_t>& vram)>;

// A row for each budget and method, with what the plan predicts. Which of
// several methods does not fit a budget is said and left out. No methods: as
// session.place says, or native. Errors of `measure`.
Result<std::vector<bench::HybridRow>> MeasurePlacements(
    std::vector<planner::Method> methods, const PlanInputs& inputs,
    engine::SessionOptions session,
    const std::vector<std::optional<uint64_t>>& budgets,
    const MeasureOne& measure);

// "native,ilp", or "all". kNotFound: an unknown name.
Result<std::vector<planner::Method>> ParseMethods(const std::string& text);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_BENCH_PLACEMENTS_H_
