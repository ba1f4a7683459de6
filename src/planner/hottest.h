// Neurons and experts one by one, the most frequent first: what placements do
// that know of frequencies alone.
#ifndef THERMOCLINE_PLANNER_HOTTEST_H_
#define THERMOCLINE_PLANNER_HOTTEST_H_

#include <cstdint>
#include <vector>

#include "planner/problem.h"

namespace thermocline::planner {

struct HotItem {
  float frequency = 0.0f;
  uint32_t layer_idx = 0;
  uint32_t item = 0;  // neuron or expert
};

// All of layers whose rule leaves them open.
std::vector<HotItem> OpenItems(const Problem& problem);

// Adds those that fit beside what is placed, the most frequent first; of the
// same frequency by their number, layers in turn. Requires items that are not
// there yet.
void PlaceHottest(const Problem& problem, std::vector<HotItem> items,
                  Placement& placement);

}  // namespace thermocline::planner

#endif  // THERMOCLINE_PLANNER_HOTTEST_H_
