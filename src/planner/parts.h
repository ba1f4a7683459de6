// The parts of a problem that lie somewhere whole, as one list.
#ifndef THERMOCLINE_PLANNER_PARTS_H_
#define THERMOCLINE_PLANNER_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "planner/problem.h"

namespace thermocline::planner {

enum class PartKind : uint8_t { kHead, kPredictor, kMatrices, kAttention };

struct WholePart {
  const Part* part = nullptr;
  PartKind kind = PartKind::kHead;
  uint32_t layer_idx = 0;  // 0 of the head

  uint64_t bytes() const { return InPieces(part->bytes); }
};

// Those that exist: the head, then layer by layer. The problem outlives them.
std::vector<WholePart> PartsOf(const Problem& problem);

void Put(const WholePart& part, Placement& placement);

// What the rules want on the device, and nothing else. kResourceExhausted: it
// does not fit the budget, with what it takes.
Result<Placement> PlaceDemanded(const Problem& problem);

// Open parts by bytes read per token and byte there, the best first; of the
// same worth heads before predictors, matrices and attention, then the last
// layers.
std::vector<WholePart> OpenPartsByWorth(const Problem& problem);

}  // namespace thermocline::planner

#endif  // THERMOCLINE_PLANNER_PARTS_H_
