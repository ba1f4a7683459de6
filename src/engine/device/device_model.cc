#include "engine/device/device_model.h"

#include <fmt/format.h>

#include <utility>

#include "engine/attention/device_attention.h"
#include "engine/ffn/device_selector.h"
#include "engine/ffn/ffn_layers.h"
#include "engine/ffn/ffn_mode.h"
#include "engine/forward/device_head.h"

namespace thermocline::engine {
namespace {

class Loader {
 public:
  explicit Loader(const DeviceModelParts& parts) : parts_(parts) {}

  Result<std::unique_ptr<DeviceModel>> Load() {
    const Placement& placement = *parts_.placement;
    TC_ASSIGN_OR_RETURN(
        loaded_->lane,
        DeviceLane::Make(parts_.device,
                         {.device_bytes = placement.lane_bytes,
                          .pinned_bytes = placement.pinned_bytes}));
    const size_t num_layers = config().num_layers;
    loaded_->attention.resize(num_layers);
    loaded_->predictors.resize(num_layers);
    loaded_->neurons.resize(num_layers);
    loaded_->matrices.resize(num_layers);
    loaded_->experts.resize(num_layers);
    TC_RETURN_IF_ERROR(LoadKv());
    for (size_t i = 0; i < placement.layers.size(); ++i) {
      const Status status = LoadLayer(i);
      if (!status) return Annotate(fmt::format("layer {}", i), status.error());
    }
    if (placement.head) {
      TC_ASSIGN_OR_RETURN(
          loaded_->head,
          MakeDeviceHead(parts_.model->weights().head, loaded_->lane.get(),
                         MemoryFor(placement.head_over_link)));
    }
    return std::move(loaded_);
  }

 private:
  Status LoadLayer(size_t layer_idx) {
    const LayerPlacement& layer = parts_.placement->layers[layer_idx];
    if (layer.attention) TC_RETURN_IF_ERROR(LoadAttention(layer_idx));
    if (!layer.resident.empty()) TC_RETURN_IF_ERROR(LoadNeurons(layer_idx));
    if (layer.predictor) TC_RETURN_IF_ERROR(LoadPredictor(layer_idx));
    if (layer.matrices) TC_RETURN_IF_ERROR(LoadMatrices(layer_idx));
    if (!layer.experts.empty()) TC_RETURN_IF_ERROR(LoadExperts(layer_idx));
    return {};
  }

  const model::Config& config() const { return parts_.model->config(); }
  const model::LayerWeights& weights(size_t layer_idx) const {
    return parts_.model->weights().layers[layer_idx];
  }

  device::MemoryKind MemoryOf(size_t layer_idx) const {
    return MemoryFor(parts_.placement->layers[layer_idx].over_link);
  }

  Status LoadKv() {
    std::vector<size_t> attending;
    for (size_t i = 0; i < parts_.placement->layers.size(); ++i) {
      if (parts_.placement->layers[i].attention) attending.push_back(i);
    }
    if (attending.empty()) return {};
    TC_ASSIGN_OR_RETURN(
        loaded_->kv,
        DeviceKv::Make(config(), attending, parts_.placement->num_kv_pages,
                       loaded_->lane.get()));
    return {};
  }

  Status LoadAttention(size_t layer_idx) {
    TC_ASSIGN_OR_RETURN(
        loaded_->attention[layer_idx],
        MakeDeviceAttention({.config = &config(),
                             .weights = &weights(layer_idx).attention,
                             .layer_idx = layer_idx,
                             .lane = loaded_->lane.get(),
                             .kv = loaded_->kv.get(),
                             .compute = parts_.compute,
                             .memory = MemoryOf(layer_idx)}));
    return {};
  }

  Status LoadPredictor(size_t layer_idx) {
    const model::PredictorConfig& predictor = config().predictor;
    const bool reads_the_same =
        predictor.input == model::PredictorInput::kNormed &&
        (predictor.lookahead == 0 || layer_idx == 0);
    TC_ASSIGN_OR_RETURN(
        loaded_->predictors[layer_idx],
        MakeDeviceSelector(
            weights(layer_idx).predictor, predictor.threshold,
            loaded_->lane.get(),
            reads_the_same ? loaded_->neurons[layer_idx].get() : nullptr,
            MemoryOf(layer_idx)));
    return {};
  }

  Status LoadNeurons(size_t layer_idx) {
    const FfnMode mode = (*parts_.layers)[layer_idx].of(Phase::kGenerate);
    TC_ASSIGN_OR_RETURN(
        loaded_->neurons[layer_idx],
        DeviceFfn::Make(
            {.spec = &config().layers[layer_idx].ffn,
             .weights = &weights(layer_idx).ffn,
             .rest_below = RestBelow(config(), layer_idx, mode),
             .resident = parts_.placement->layers[layer_idx].resident,
             .lane = loaded_->lane.get(),
             .memory = MemoryOf(layer_idx)}));
    return {};
  }

  Status LoadMatrices(size_t layer_idx) {
    TC_ASSIGN_OR_RETURN(
        loaded_->matrices[layer_idx],
        DeviceMatrices::Make(config().layers[layer_idx].ffn,
                             weights(layer_idx).ffn, loaded_->lane.get(),
                             MemoryOf(layer_idx)));
    return {};
  }

  Status LoadExperts(size_t layer_idx) {
    const FfnMode mode = (*parts_.layers)[layer_idx].of(Phase::kGenerate);
    TC_ASSIGN_OR_RETURN(
        loaded_->experts[layer_idx],
        DeviceExperts::Make(
            {.spec = &config().layers[layer_idx].ffn,
             .weights = &weights(layer_idx).ffn,
             .mode = mode,
             .rest_below = RestBelow(config(), layer_idx, mode),
             .resident = parts_.placement->layers[layer_idx].experts,
             .lane = loaded_->lane.get(),
             .memory = MemoryOf(layer_idx)}));
    return {};
  }

  const DeviceModelParts& parts_;
  std::unique_ptr<DeviceModel> loaded_ = std::make_unique<DeviceModel>();
};

constexpr std::string_view kDoubt = ", or the device computes wrongly";

}  // namespace

std::string_view DoubtOfLayer(const DeviceModel* device, size_t layer_idx) {
  if (device == nullptr) return "";
  const auto has = [&](const auto& parts) {
    return layer_idx < parts.size() && parts[layer_idx] != nullptr;
  };
  const bool is_there = has(device->attention) || has(device->predictors) ||
                        has(device->neurons) || has(device->matrices) ||
                        has(device->experts);
  return is_there ? kDoubt : "";
}

std::string_view DoubtOfHead(const DeviceModel* device) {
  return device != nullptr && device->head != nullptr ? kDoubt : "";
}

Result<std::unique_ptr<DeviceModel>> LoadDeviceModel(
    const DeviceModelParts& parts) {
  return Loader(parts).Load();
}

}  // namespace thermocline::engine
