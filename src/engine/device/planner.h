// Decides what of a model lies on a device, before anything is allocated.
#ifndef THERMOCLINE_ENGINE_DEVICE_PLANNER_H_
#define THERMOCLINE_ENGINE_DEVICE_PLANNER_H_

#include <cstdint>

#include "base/status.h"
#include "device/device.h"
#include "engine/device/placement.h"
#include "engine/device/placement_rules.h"
#include "engine/ffn/ffn_choice.h"
#include "model/model.h"

namespace thermocline::engine {

struct PlacementRequest {
  const model::Model* model = nullptr;
  FfnChoice choice;  // of generated rows
  const device::RowLayout* layout = nullptr;
  int64_t context = 0;        // positions of the longest sequence
  uint64_t num_kv_pages = 0;  // of all sequences
  uint64_t vram = 0;          // bytes; never exceeded
  PlacementRules rules;
};

// Places what the rules demand, then, best first (placement_worth.h), whatever
// else fits. Exact: what is allocated is device_bytes(), in pieces of 256.
// With rules that keep everything on the host the placement is empty.
// kInvalidArgument: DemandsOfTensors'. kResourceExhausted: what is demanded
// does not fit, with what would; not even the smallest part fits, with the
// least that does. kUnsupported: nothing of it can be there, with the first
// reason.
Result<Placement> PlanPlacement(const PlacementRequest& request);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_DEVICE_PLANNER_H_
