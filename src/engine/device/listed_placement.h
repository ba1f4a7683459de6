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
  // What of a model can be on the device and is not listed is computed there
  // all the same, its weights over the link; layers are listed whole or not at
  // all. request.rules keep on the host what they name.
  bool rest_over_link = false;
};

// With the bytes that it takes, of which none is trusted. request.rules do not
// count but for rest_over_link. kInvalidArgument: other layers, neurons or
// experts than the model has, not ascending, a part that cannot be on the
// device, or with rest_over_link a layer in pieces, named; DemandsOfTensors'.
// kResourceExhausted: it takes more than request.vram, with how much.
// kUnsupported: nothing could cross the link, with the first reason.
Result<Placement> PlaceListed(const PlacementRequest& request,
                              const ListedParts& parts);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_DEVICE_LISTED_PLACEMENT_H_
