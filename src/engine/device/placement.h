// Which weights lie on a device: decided before anything is allocated.
#ifndef THERMOCLINE_ENGINE_DEVICE_PLACEMENT_H_
#define THERMOCLINE_ENGINE_DEVICE_PLACEMENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/device.h"
#include "engine/ffn/ffn_mode.h"
#include "model/model.h"

namespace thermocline::engine {

struct LayerPlacement {
  // Neurons of the FFN whose records the device has, ascending.
  std::vector<uint32_t> resident;
};

struct Placement {
  std::vector<LayerPlacement> layers;  // [L], or none
  uint64_t record_bytes = 0;           // on the device: records, slots, biases
  uint64_t lane_bytes = 0;             // and activations
  uint64_t pinned_bytes = 0;           // of the host, for rows on their way
  // Layers of which nothing can be there, and why; said once.
  std::vector<std::string> left_out;

  uint64_t device_bytes() const { return record_bytes + lane_bytes; }
  bool empty() const { return device_bytes() == 0; }
};

// Fills `vram` bytes with the neurons that fired most often in the model's
// profile, per byte, whatever their layer (PowerInfer 6.1 without its
// communication term); without a profile with the same share of every layer,
// its first ones. Exact: what is allocated is device_bytes(), in pieces of 256.
// kResourceExhausted: not even a few neurons fit beside the activations, with
// the least that does. kUnsupported: no layer's neurons can be there, with the
// first layer's reason.
// mode: what generated rows compute. In kDense only records go there: matrices
// are multiplied as a whole.
Result<Placement> PlaceByFrequency(const model::Model& model, FfnMode mode,
                                   const device::RowLayout& layout,
                                   uint64_t vram);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_DEVICE_PLACEMENT_H_
