// Which weights lie on a device: decided before anything is allocated.
#ifndef THERMOCLINE_ENGINE_DEVICE_PLACEMENT_H_
#define THERMOCLINE_ENGINE_DEVICE_PLACEMENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "device/device.h"
#include "model/config.h"

namespace thermocline::engine {

// What of a layer the device computes, of generated rows.
struct LayerPlacement {
  bool attention = false;  // with the pages of its keys and values
  bool predictor = false;  // the trained one of this layer's neurons
  bool matrices = false;   // the FFN, all of it, as matrices
  // Neurons of the FFN whose records the device has, ascending.
  std::vector<uint32_t> resident;
  std::vector<uint32_t> experts;  // those of a mixture, ascending
  // The weights of all this lie in pinned memory of the host, which the device
  // reads over the link as it computes; keys and values lie there all the same.
  bool over_link = false;
};

inline bool HasAnything(const LayerPlacement& layer) {
  return layer.attention || layer.predictor || layer.matrices ||
         !layer.resident.empty() || !layer.experts.empty();
}

// Where weights lie that the device computes with.
constexpr device::MemoryKind MemoryFor(bool over_link) {
  return over_link ? device::MemoryKind::kPinned : device::MemoryKind::kDevice;
}

struct Placement {
  std::vector<LayerPlacement> layers;  // [L], or none
  bool head = false;
  bool head_over_link = false;  // likewise
  uint64_t num_kv_pages = 0;    // as the pool's; 0: no layer attends there
  // On the device, each what is allocated, in pieces of 256:
  uint64_t weight_bytes = 0;  // attention, predictors, matrices, head
  uint64_t record_bytes = 0;  // neurons and experts, which may come and go
  uint64_t kv_bytes = 0;
  uint64_t lane_bytes = 0;  // activations
  // Of the host, likewise:
  uint64_t pinned_bytes = 0;  // for what is on its way
  uint64_t linked_bytes = 0;  // weights that the device reads over the link
  // What cannot be there although it may or is asked for, and why; said once.
  std::vector<std::string> left_out;

  uint64_t device_bytes() const {
    return weight_bytes + record_bytes + kv_bytes + lane_bytes;
  }
  bool empty() const { return device_bytes() == 0; }
};

// "attention of 32 of 32 layers, 41 % of the neurons, head", or "nothing"; with
// weights over the link besides "; those of 22 layers and the head lie on the
// host, over the link".
std::string Describe(const Placement& placement, const model::Config& config);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_DEVICE_PLACEMENT_H_
