// Placements as files: plan.json. Untrusted input. Format:
// docs/formats/plan.md.
#ifndef THERMOCLINE_PLANNER_PLAN_FILE_H_
#define THERMOCLINE_PLANNER_PLAN_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/model.h"
#include "model/profile_file.h"
#include "planner/named.h"
#include "planner/problem.h"

namespace thermocline::planner {

// What a layer has to place; a file is checked against its own numbers and
// these against the model.
struct LayerExtent {
  uint32_t num_neurons = 0;
  uint32_t num_experts = 0;

  bool operator==(const LayerExtent&) const = default;
};

struct PlanFile {
  // What the plan is for: another model, machine, budget or mode needs another.
  model::ModelFingerprint model;
  std::string machine;  // as whoever made the plan calls it
  uint64_t budget = 0;  // bytes of the device's memory, for all of it
  std::string mode;     // of the FFNs: "fast"
  Method method = Method::kNative;
  std::optional<double> seconds;     // predicted, per token
  std::vector<LayerExtent> extents;  // [L]
  Placement placement;

  bool operator==(const PlanFile&) const = default;
};

inline constexpr uint64_t kMaxPlanBytes = uint64_t{256} << 20;

std::vector<LayerExtent> ExtentsOf(const Problem& problem);

// A line per layer, residents as runs: files of two plans differ in the lines
// of the layers that do. Requires as many extents as layers, and indices that
// are ascending and below them (CHECKed).
std::string FormatPlan(const PlanFile& plan);

// What FormatPlan gave comes back equal. `path` is named in errors. kCorrupt:
// not JSON, a key twice, larger than kMaxPlanBytes; kInvalidArgument: a key is
// missing, unknown, or not what it has to be, named; kUnsupported: a version to
// come.
Result<PlanFile> ParsePlan(std::string_view text, const std::string& path);

// ParsePlan's errors; kNotFound, kIo as os::ReadFile; writing replaces
// atomically.
Result<PlanFile> ReadPlan(const std::string& path);
Status WritePlan(const PlanFile& plan, const std::string& path);

// kInvalidArgument, with what differs, if the plan is of another model, or its
// layers have other numbers of neurons or experts. `path` is for the message.
Status CheckPlanFor(const PlanFile& plan, const model::Model& model,
                    const std::string& path);

}  // namespace thermocline::planner

#endif  // THERMOCLINE_PLANNER_PLAN_FILE_H_
