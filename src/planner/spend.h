// The native solver's states, and how what they leave of the budget is spent.
#ifndef THERMOCLINE_PLANNER_SPEND_H_
#define THERMOCLINE_PLANNER_SPEND_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/ffn_curve.h"
#include "planner/parts.h"

namespace thermocline::planner {

// A part whose place is open.
struct OpenPart {
  WholePart whole;
  double bytes = 0.0;
  double saved = 0.0;  // seconds per token, on the device

  double worth() const { return saved / std::max(bytes, 1.0); }
};

// What is settled before memory is divided among the FFNs.
struct Choices {
  std::vector<bool> there;    // of the open parts
  std::vector<bool> barred;   // of these, whom what is left may not buy
  std::vector<bool> without;  // [L] FFNs of which nothing is there
};

// Where everything lies, in the solver's own terms.
struct State {
  Choices choices;
  std::vector<size_t> counts;  // [L] of the most worth items
  uint64_t bytes = 0;
  double seconds = 0.0;
};

// Buys parts and items with what the state leaves of the budget, the one that
// saves the most seconds per byte first, as long as any fits. Keeps bytes and
// seconds up to date. Requires bytes within the budget.
void SpendRest(const std::vector<OpenPart>& parts,
               const std::vector<FfnCurve>& curves, uint64_t budget,
               State& state);

}  // namespace thermocline::planner

#endif  // THERMOCLINE_PLANNER_SPEND_H_
