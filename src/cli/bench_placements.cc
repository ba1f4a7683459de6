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
  if (method == planner::Method::kDenseLayers) {
    session.ffn = engine::FfnMode::kDense;
    session.predictor = engine::PredictorChoice::kAuto;
  }
  auto rows = measure(session, vram);
  const planner::MethodInfo& info = planner::InfoOf(method);
  if (!rows && rows.error().code == ErrorCode::kUnsupported && !info.runs &&
      made.named.seconds > 0.0) {
    rows = std::vector<bench::HybridRow>{{.vram = vram}};
  }
  TC_RETURN_IF_ERROR(rows);
  for (bench::HybridRow& row : *rows) {
    row.placement = info.name;
    if (made.named.seconds > 0.0) row.predicted_ts = 1.0 / made.named.seconds;
  }
  return rows;
}

}  // namespace

Result<std::vector<bench::HybridRow>> MeasurePlacements(
    const PlacementChoice& choice, const PlanInputs& inputs,
    engine::SessionOptions session,
    const std::vector<std::optional<uint64_t>>& budgets,
    const MeasureOne& measure) {
  std::vector<planner::Method> methods = choice.methods;
  if (methods.empty()) methods.push_back(planner::Method::kNative);
  std::vector<bench::HybridRow> all;
  for (const auto& vram : budgets) {
    if (choice.plan_path) {
      session.place = PlaceFromFile(*choice.plan_path);
      TC_ASSIGN_OR_RETURN(const auto rows, measure(session, vram));
      all.insert(all.end(), rows.begin(), rows.end());
      continue;
    }
    for (const planner::Method method : methods) {
      const auto rows = MeasureMethod(method, inputs, session, vram, measure);
      if (!rows && methods.size() > 1 &&
          rows.error().code == ErrorCode::kResourceExhausted) {
        LogWarning("{}: {}", planner::InfoOf(method).name,
                   rows.error().message);
        continue;
      }
      TC_RETURN_IF_ERROR(rows);
      all.insert(all.end(), rows->begin(), rows->end());
    }
  }
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
