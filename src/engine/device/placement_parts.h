// What of a model a device could have, and what each part takes there.
#ifndef THERMOCLINE_ENGINE_DEVICE_PLACEMENT_PARTS_H_
#define THERMOCLINE_ENGINE_DEVICE_PLACEMENT_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/device/device_lane.h"
#include "engine/device/placement_rules.h"
#include "engine/ffn/ffn_choice.h"
#include "model/model.h"

namespace thermocline::engine {

// A part that lies there whole.
struct PartCost {
  uint64_t num_bytes = 0;
  LaneNeed need;
};

// How generated rows compute a layer's FFN, so far as a device can.
enum class FfnForm : uint8_t { kHost, kMatrices, kNeurons, kExperts };

struct LayerParts {
  std::optional<PartCost> attention;  // without its keys and values
  std::optional<PartCost> predictor;
  FfnForm ffn = FfnForm::kHost;
  LaneNeed ffn_need;
  uint64_t matrix_bytes = 0;  // kMatrices
  // kNeurons: of each one, and besides them once there are any; kExperts: of
  // each one.
  uint64_t record_bytes = 0;
  uint64_t other_bytes = 0;
  std::vector<uint64_t> expert_bytes;
};

struct DeviceParts {
  std::vector<LayerParts> layers;  // [L]
  std::optional<PartCost> head;
  // What cannot be there although it may, and why; the same of several layers
  // once.
  std::vector<std::string> left_out;
};

// demands: parts that they keep on the host are not asked about.
DeviceParts PlanDeviceParts(const model::Model& model, const FfnChoice& choice,
                            const device::RowLayout& layout, int64_t context,
                            const Demands& demands);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_DEVICE_PLACEMENT_PARTS_H_
