// Sessions that are in memory together, under one budget of RAM.
//
// What they need whole is added up. Where that is more than the budget a part
// of their models stays in the files, so much that each has room for its slots
// beside the others. Where the budget holds the least of each but not of all,
// they take that, and the log says so.
#ifndef THERMOCLINE_CLI_SHARED_BUDGET_H_
#define THERMOCLINE_CLI_SHARED_BUDGET_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/runtime.h"
#include "gguf/gguf.h"
#include "model/config.h"

namespace thermocline::cli {

// Sessions of one model, which have the same budget; never none.
struct ModelSessions {
  std::vector<engine::SessionOptions> sessions;
  uint64_t beside_bytes = 0;  // that count against the budget too: logits
};

// The one that needs most memory beside the weights.
const engine::SessionOptions& LargestOf(
    std::span<const engine::SessionOptions> sessions,
    const model::Config& config);

// Of one model's sessions together, what they need with all of it in memory,
// and with as much as possible in the file; the same where nothing can stay
// there. Errors of PlanMemory.
struct BudgetRange {
  uint64_t whole = 0;
  uint64_t least = 0;
};
Result<BudgetRange> RangeOf(const gguf::File& file, const model::Config& config,
                            const ModelSessions& of_model);

// What each of several models, whose sessions run together, may have of a
// budget: its least, and a part of the rest, as much more as it lacks of the
// whole; never more than the budget. Where that holds all, all of it for each,
// since nothing is to stay in the file. beside_bytes count against it as well.
std::vector<uint64_t> ShareOut(uint64_t budget, uint64_t beside_bytes,
                               std::span<const BudgetRange> ranges);

// The tensors that stay in the file, as engine::TensorsToLeave, for all of the
// sessions. Its errors.
Result<std::vector<std::string>> LeaveForAll(const gguf::File& file,
                                             const model::Config& config,
                                             const ModelSessions& of_model);

// Gives each its part of the budget, where a part of the weights stays in the
// file; tells: if that is more than the budget, in the log.
void DivideBudget(const model::Config& config,
                  const engine::WeightMemory& weights, uint64_t beside_bytes,
                  std::span<engine::SessionOptions> sessions, bool tells);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_SHARED_BUDGET_H_
