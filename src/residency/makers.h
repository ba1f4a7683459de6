// The policies of policy.h one by one. All want layers that MakePolicy has
// looked at.
#ifndef THERMOCLINE_RESIDENCY_MAKERS_H_
#define THERMOCLINE_RESIDENCY_MAKERS_H_

#include <memory>
#include <vector>

#include "residency/policy.h"

namespace thermocline::residency {

using Extents = std::vector<LayerExtent>;

// PowerInfer 5.2, 6: who is hot is settled before anything runs.
std::unique_ptr<Policy> MakeStatic(const Extents& layers);
// Whose last use is longest ago leaves.
std::unique_ptr<Policy> MakeLru(const Extents& layers);
// Who was used least often leaves; of equal ones whose last use is longest ago.
// Uses count for units that are not resident too.
std::unique_ptr<Policy> MakeLfu(const Extents& layers);
// PowerInfer-2 4.2.
std::unique_ptr<Policy> MakeTwoQueue(const Extents& layers);
// Ours: who has the lowest slow score leaves, for somebody clearly better.
// Without a profile it begins as lfu does.
std::unique_ptr<Policy> MakeSlow(const Extents& layers);

// LLM in a Flash 3.1: who was used in one of the last five passes stays, and
// others come where somebody else has to leave.
std::unique_ptr<Policy> MakeWindow(const Extents& layers);

}  // namespace thermocline::residency

#endif  // THERMOCLINE_RESIDENCY_MAKERS_H_
