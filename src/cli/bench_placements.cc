#include "cli/bench_placements.h"

#include <string>
#include <utility>

#include "base/log.h"
#include "cli/planned_placement.h"

namespace thermocline::cli {
namespace {

// Of one method at one budget.
Result<std::vector<bench::HybridRow>> MeasureMethod(
    planner::Method method, const PlanInputs& inputs,
    engine::SessionOptions session, const std::optional<uint64_t>& vram,
    const MeasureOne& measure) {
  PlanMade made;
  session.place = PlaceBy(method, inputs, &made);
  UseModeOf(method, session);
  auto rows = measure(session, vram);
  TC_RETURN_IF_ERROR(rows);
  for (bench::HybridRow& row : *rows) {
    row.placement = planner::InfoOf(method).name;
    if (made.named.seconds > 0.0) row.predicted_ts = 1.0 / made.named.seconds;
  }
  return rows;
}

// Of several methods one may not fit, or not be there to be run.
bool MayBeLeftOut(const Error& error) {
  return error.code == ErrorCode::kResourceExhausted ||
         error.code == ErrorCode::kUnsupported;
}

}  // namespace

Result<std::vector<bench::HybridRow>> MeasurePlacements(
    std::vector<planner::Method> methods, const PlanInputs& inputs,
    engine::SessionOptions session,
    const std::vector<std::optional<uint64_t>>& budgets,
    const MeasureOne& measure) {
  const bool is_said = methods.empty() && session.place;
  if (methods.empty() && !is_said) methods.push_back(planner::Method::kNative);
  std::vector<bench::HybridRow> all;
  Status last_error;
  for (const auto& vram : budgets) {
    if (is_said) {
      TC_ASSIGN_OR_RETURN(const auto rows, measure(session, vram));
      all.insert(all.end(), rows.begin(), rows.end());
    }
    for (const planner::Method method : methods) {
      const auto rows = MeasureMethod(method, inputs, session, vram, measure);
      if (!rows && methods.size() > 1 && MayBeLeftOut(rows.error())) {
        LogWarning("{}: {}", planner::InfoOf(method).name,
                   rows.error().message);
        last_error = tl::unexpected(rows.error());
        continue;
      }
      TC_RETURN_IF_ERROR(rows);
      all.insert(all.end(), rows->begin(), rows->end());
    }
  }
  if (all.empty()) TC_RETURN_IF_ERROR(last_error);
  return all;
}

Result<std::vector<planner::Method>> ParseMethods(const std::string& text) {
  std::vector<planner::Method> methods;
  if (text == "all") {
    for (const planner::MethodInfo& info : planner::Methods()) {
      methods.push_back(info.method);
    }
    return methods;
  }
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    TC_ASSIGN_OR_RETURN(methods.emplace_back(),
                        planner::ParseMethod(
                            std::string_view(text).substr(begin, end - begin)));
    begin = end + 1;
  }
  return methods;
}

}  // namespace thermocline::cli
