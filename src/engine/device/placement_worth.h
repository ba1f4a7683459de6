// How much it is worth to have a part of a model on a device.
#ifndef THERMOCLINE_ENGINE_DEVICE_PLACEMENT_WORTH_H_
#define THERMOCLINE_ENGINE_DEVICE_PLACEMENT_WORTH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/device/placement_parts.h"
#include "engine/device/placement_rules.h"
#include "engine/ffn/ffn_mode.h"
#include "model/model.h"

namespace thermocline::engine {

// What is placed as one.
enum class PlacedKind : uint8_t {
  kHead,
  kPredictor,
  kMatrices,
  kAttention,
  kNeuron,
  kExpert
};

struct PlacedUnit {
  float worth = 0.0f;  // bytes read per token and byte there, 0 to 1
  PlacedKind kind = PlacedKind::kHead;
  uint32_t layer_idx = 0;
  uint32_t idx = 0;  // neuron or expert
};

// Those whose place is open, best first. Attention, predictors, head and
// matrices are read for every token; of keys and values, half, since contexts
// fill. Neurons as often as they fired in the model's profile (PowerInfer 6.1
// without its communication term), whatever their layer; without a profile the
// same share of every layer, its first ones. Experts as often as they are
// chosen. What is worth the same: from the last layer on, neurons of all layers
// in turn. The same on every machine.
std::vector<PlacedUnit> RankUnits(const model::Model& model,
                                  const DeviceParts& parts,
                                  const Demands& demands, FfnMode mode,
                                  uint64_t num_kv_pages);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_DEVICE_PLACEMENT_WORTH_H_
