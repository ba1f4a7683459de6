// What of a model lies on a device, ready to compute: made from a placement
// when the engine is.
#ifndef THERMOCLINE_ENGINE_DEVICE_DEVICE_MODEL_H_
#define THERMOCLINE_ENGINE_DEVICE_DEVICE_MODEL_H_

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "compute/matmul.h"
#include "engine/attention/attention_executor.h"
#include "engine/device/device_lane.h"
#include "engine/device/placement.h"
#include "engine/ffn/device_experts.h"
#include "engine/ffn/device_ffn.h"
#include "engine/ffn/device_matrices.h"
#include "engine/forward/head_executor.h"
#include "engine/kv/device_kv.h"
#include "engine/layer_plan.h"
#include "model/model.h"
#include "predictor/selector.h"

namespace thermocline::engine {

// Of generated rows; [L] each, null where the host computes it. Executors of
// the host are made beside them, for prompts.
struct DeviceModel {
  std::unique_ptr<DeviceLane> lane;
  std::unique_ptr<DeviceKv> kv;  // null: no layer attends there
  std::vector<std::unique_ptr<AttentionExecutor>> attention;
  std::vector<std::unique_ptr<predictor::Selector>> predictors;
  std::vector<std::unique_ptr<DeviceFfn>> neurons;
  std::vector<std::unique_ptr<DeviceMatrices>> matrices;
  std::vector<std::unique_ptr<DeviceExperts>> experts;
  std::unique_ptr<HeadExecutor> head;  // or null
};

// What the error of an output that is not finite says besides, where the device
// computes of it: the weights may be right. device: or null.
std::string_view DoubtOfLayer(const DeviceModel* device, size_t layer_idx);
std::string_view DoubtOfHead(const DeviceModel* device);

struct DeviceModelParts {
  const model::Model* model = nullptr;
  const Placement* placement = nullptr;
  const std::vector<LayerPlan>* layers = nullptr;
  const compute::Compute* compute = nullptr;
  device::Device* device = nullptr;
};

// Copies over what the placement names. All of it outlives the result, but for
// the placement. kResourceExhausted, errors of the device, with the layer.
Result<std::unique_ptr<DeviceModel>> LoadDeviceModel(
    const DeviceModelParts& parts);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_DEVICE_DEVICE_MODEL_H_
