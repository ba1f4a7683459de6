// A placement that somebody else has made: a plan's. The engine decides nothing
// of it, but counts for itself what it takes and refuses what it cannot carry
// out.
#ifndef THERMOCLINE_ENGINE_DEVICE_LISTED_PLACEMENT_H_
#define THERMOCLINE_ENGINE_DEVICE_LISTED_PLACEMENT_H_

#include <vector>

#include "base/status.h"
#include "engine/device/placement.h"
#include "engine/device/planner.h"

namespace thermocline::engine {

// What is to lie on the device.
struct ListedParts {
  std::vector<LayerPlacement> layers;  // [L]
  bool head = false;
};

// With the bytes that it takes, of which none is trusted. request.rules do not
// count. kInvalidArgument: other layers, neurons or experts than the model has,
// not ascending, or a part that cannot be on the device, named;
// kResourceExhausted: it takes more than request.vram, with how much.
Result<Placement> PlaceListed(const PlacementRequest& request,
                              const ListedParts& parts);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_DEVICE_LISTED_PLACEMENT_H_
