// The policies of policy.h without parameters, one by one; those with some have
// files of their own. All want layers that MakePolicy has looked at.
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
// LLM in a Flash 3.1: who was used in one of the last five passes stays, and
// others come where somebody else has to leave.
std::unique_ptr<Policy> MakeWindow(const Extents& layers);
// Neuralink's rule as KAIROX describes it (9.1, 9.3): all that a pass uses is
// loaded, without a filter. Who leaves is not said: here whose arrival is
// longest ago, since a rule that asks nothing on the way in keeps no counts.
std::unique_ptr<Policy> MakeEager(const Extents& layers);

// Q-Infer's rule as KAIROX describes it (9.2, 10): the current round's
// activations alone rank who is loaded, of a group the share of its members,
// as long as there is time for moves. Who leaves is not said: here whose last
// round is longest ago, of equal ones who was used least in it. Of single
// neurons all that are used rank alike, and little is left of a difference to
// `lru`.
std::unique_ptr<Policy> MakeCurrent(const Extents& layers);

}  // namespace thermocline::residency

#endif  // THERMOCLINE_RESIDENCY_MAKERS_H_
