// Which records or experts tokens use, and what a cache would miss of them: the
// P_miss(m) of PowerInfer-2 5.2, by the cache's own code.
#ifndef THERMOCLINE_CLI_STORAGE_USES_H_
#define THERMOCLINE_CLI_STORAGE_USES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/model.h"
#include "planner/storage_cost.h"

namespace thermocline::cli {

struct UnitUses {
  std::vector<uint32_t> num_units;            // [L]
  std::vector<std::vector<float>> frequency;  // [L] what the engine's policy is
                                              // told before; or none
  // [T][L] units that are used, ascending.
  std::vector<std::vector<std::vector<uint32_t>>> tokens;
  size_t num_warm = 0;  // of them, the first, which fill the cache
  std::string source;   // for people
};

struct UseOptions {
  // A trace of the model instead of its counts.
  std::optional<std::string> trace_path;
  // Counts of a profile of the model, instead of those in its file.
  std::optional<std::string> counts_path;
  // Units that are asked for, for each that fires; 0: all are, of every token,
  // or of the experts that it has.
  double used_per_fired = 1.6;
  bool by_experts = false;  // units are experts, not neurons
  uint64_t seed = 1;
};

// Of generated tokens, if the trace has any. Without a trace, tokens are drawn:
// neurons fire as often as they were counted, each as likely again as before
// by the profile's locality, and else independently.
// kInvalidArgument: a trace of another model, or without a token; errors of
// neuron::TraceReader and ReadActivity.
Result<UnitUses> UsesOf(const model::Model& model, const UseOptions& options);

// How misses become reads.
struct ReadShape {
  uint64_t unit_bytes = 0;
  // Neighbours in the file are read together up to so many bytes, and what lies
  // between two of them up to `gap_bytes`.
  uint64_t most_bytes = 0;
  uint64_t gap_bytes = 0;
  uint32_t reads_per_unit = 1;  // of units that are never read together
};
// As engine/stream/streamed_store.cc reads records of that size.
ReadShape ReadsOfRecords(uint64_t stride, bool slots_touch);

// What a policy misses with so many slots in each layer, of the tokens that are
// not warm. Errors of residency::MakePolicy.
Result<std::vector<planner::TokenUse>> ReplayUses(
    const UnitUses& uses, std::string_view policy,
    const std::vector<uint32_t>& capacity, const ReadShape& shape);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_STORAGE_USES_H_
