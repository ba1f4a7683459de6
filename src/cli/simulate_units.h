// What moves as one in a simulation: neurons, groups of them, experts.
#ifndef THERMOCLINE_CLI_SIMULATE_UNITS_H_
#define THERMOCLINE_CLI_SIMULATE_UNITS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "neuron/trace.h"
#include "planner/neuron_groups.h"
#include "residency/policy.h"

namespace thermocline::cli {

struct UnitOptions {
  // Else by neurons; absent: neurons, or what the trace's run had.
  std::optional<bool> by_experts;
  std::vector<size_t> group_sizes = {1};
  // Which neurons are a group (KAIROX 5.2); absent: by number.
  std::optional<planner::Grouping> grouping;
  // The trace that groups are found in, of other text.
  std::optional<std::string> groups_path;
  // KAIROX's: its order and size of groups, its shares of the layers.
  std::optional<std::string> split_path;
  // Whom predictors named, who are read whether they fire or not, instead of
  // who fired. Requires a trace that has them.
  bool by_candidates = false;
};

// The units of a trace, divided in one way.
struct SimulatedUnits {
  std::string name;  // "neurons", "experts", "groups of 16 (METIS)"
  size_t group_size = 1;
  bool are_experts = false;
  bool are_candidates = false;
  // [L][F] where each neuron stands: unit = place / group_size. Empty: as they
  // are numbered.
  std::vector<std::vector<uint32_t>> places;
  std::vector<float> pattern;        // [L] shares of a budget; or none: equal
  std::vector<double> member_bytes;  // [L]; or none: unknown
  std::vector<std::vector<float>> frequency;  // [L][units]; or none
  std::vector<uint32_t> num_members;          // [L]
  std::vector<uint32_t> num_used;  // [L] experts of a token; of neurons none

  // Views of `frequency`; no capacity.
  std::vector<residency::LayerExtent> Extents() const;
  // What the token that the reader gave last uses, as members; `fired` is what
  // Next filled. only_fired: of neurons no candidates.
  void MapToken(const neuron::TraceReader& reader,
                const neuron::TraceSets& fired,
                std::vector<std::vector<uint32_t>>& sets,
                bool only_fired = false) const;
  // Of a layer's member, and of all layers: bytes, or 1 where these are
  // unknown.
  double MemberSize(size_t layer_idx) const;
  double size() const;
  // Units of each layer that a budget holds, in the same: by the pattern, or
  // the same share of each layer.
  std::vector<uint32_t> CapacitiesOf(double budget) const;
  // To the nearest unit of each layer; by the pattern as CapacitiesOf.
  std::vector<uint32_t> CapacitiesOfShare(double share) const;
};

// All ways that are asked for, one for each size of groups. `frequency`: [L][F]
// of neurons, or none. kInvalidArgument: experts of a trace that has none, or
// groups of more neurons than there are; kUnsupported: METIS is missing; errors
// of TraceReader, gguf::File and model::ReadSplit.
Result<std::vector<SimulatedUnits>> DivideTrace(
    const neuron::TraceReader& reader, const UnitOptions& options,
    const std::vector<std::vector<float>>& frequency);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_SIMULATE_UNITS_H_
