// Engines of which a device has drawn parts, for tests.
#ifndef THERMOCLINE_ENGINE_TESTING_HYBRID_H_
#define THERMOCLINE_ENGINE_TESTING_HYBRID_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/random.h"
#include "device/device.h"
#include "engine/attention/device_attention.h"
#include "engine/device/placement.h"
#include "engine/ffn/device_experts.h"
#include "engine/ffn/device_ffn.h"
#include "engine/ffn/device_matrices.h"
#include "engine/ffn/device_selector.h"
#include "engine/ffn/ffn_layers.h"
#include "engine/forward/device_head.h"
#include "engine/kv/device_kv.h"
#include "engine/runtime.h"
#include "engine/testing/one_sequence.h"
#include "model/model.h"

namespace thermocline::engine::testing {

// How likely a device has each thing that it can have.
struct PlacementShares {
  double neurons = 0.0;     // each, of FFNs whose neurons can be there
  double matrices = 0.0;    // each layer's, of FFNs that are matrices
  double experts = 0.0;     // each
  double attention = 0.0;   // each layer's
  double predictors = 0.0;  // each layer's, if it has one
  double head = 0.0;
};

namespace hybrid_internal {

class PlacementDrawer {
 public:
  PlacementDrawer(const model::Model& model, const SessionOptions& options,
                  const device::RowLayout& layout,
                  const PlacementShares& shares, Random& random)
      : model_(model),
        mode_(options.ffn),
        plan_(PlanRuntime(model.config(), options).value()),
        layout_(layout),
        shares_(shares),
        random_(random) {}

  // Every kind of thing that can be on a device is drawn here.
  Placement Draw() {
    placement_.layers.resize(model_.weights().layers.size());
    for (size_t i = 0; i < placement_.layers.size(); ++i) {
      const model::FfnSpec& spec = model_.config().layers[i].ffn;
      const model::FfnWeights& weights = model_.weights().layers[i].ffn;
      if (spec.num_experts > 0) {
        DrawExperts(spec, weights, placement_.layers[i]);
      } else if (mode_ == FfnMode::kDense && !SharesNeuronsInDense(weights)) {
        DrawMatrices(spec, weights, placement_.layers[i]);
      } else {
        DrawNeurons(spec, weights, placement_.layers[i]);
      }
      DrawAttention(i);
      DrawPredictor(model_.weights().layers[i].predictor, placement_.layers[i]);
    }
    DrawHead();
    AddKv();
    placement_.lane_bytes = need_.device_bytes;
    placement_.pinned_bytes = need_.pinned_bytes;
    return std::move(placement_);
  }

 private:
  bool Is(double share) { return random_.Uniform() < share; }
  uint64_t width() const { return model_.config().width; }

  void DrawExperts(const model::FfnSpec& spec, const model::FfnWeights& weights,
                   LayerPlacement& layer) {
    need_.Cover(DeviceExpertsNeed(spec, width()));
    for (uint32_t e = 0; e < spec.num_experts; ++e) {
      const auto bytes =
          DeviceExpertBytes(spec, weights.experts[e], mode_, layout_);
      if (!bytes || !Is(shares_.experts)) continue;
      layer.experts.push_back(e);
      placement_.record_bytes += *bytes;
    }
  }

  void DrawMatrices(const model::FfnSpec& spec,
                    const model::FfnWeights& weights, LayerPlacement& layer) {
    const auto bytes = DeviceMatricesBytes(spec, weights, layout_);
    if (!bytes || !Is(shares_.matrices)) return;
    need_.Cover(DeviceMatricesNeed(spec, width()));
    layer.matrices = true;
    placement_.weight_bytes += *bytes;
  }

  void DrawNeurons(const model::FfnSpec& spec, const model::FfnWeights& weights,
                   LayerPlacement& layer) {
    const auto records = PlanDeviceRecords(spec, weights, layout_);
    if (!records) return;
    need_.Cover(DeviceFfnNeed(spec, width()));
    for (uint32_t n = 0; n < spec.width; ++n) {
      if (Is(shares_.neurons)) layer.resident.push_back(n);
    }
    if (layer.resident.empty()) return;
    placement_.record_bytes += records->BytesFor(layer.resident.size());
  }

  void DrawAttention(size_t layer_idx) {
    const auto bytes = DeviceAttentionBytes(
        model_.config(), layer_idx,
        model_.weights().layers[layer_idx].attention, layout_);
    if (!bytes || !Is(shares_.attention)) return;
    need_.Cover(
        DeviceAttentionNeed(model_.config(), layer_idx, plan_.engine.context));
    placement_.layers[layer_idx].attention = true;
    placement_.weight_bytes += *bytes;
    attending_.push_back(layer_idx);
  }

  void AddKv() {
    if (attending_.empty()) return;
    need_.Cover(DeviceKvNeed());
    placement_.num_kv_pages = plan_.num_kv_pages;
    placement_.kv_bytes =
        DeviceKvBytes(model_.config(), attending_, plan_.num_kv_pages);
  }

  void DrawPredictor(const model::PredictorWeights& weights,
                     LayerPlacement& layer) {
    if (mode_ != FfnMode::kFast || !weights.up) return;
    const auto bytes = DeviceSelectorBytes(weights, layout_);
    if (!bytes || !Is(shares_.predictors)) return;
    need_.Cover(DeviceSelectorNeed(weights));
    layer.predictor = true;
    placement_.weight_bytes += *bytes;
  }

  void DrawHead() {
    const auto bytes = DeviceHeadBytes(model_.weights().head, layout_);
    if (!bytes || !Is(shares_.head)) return;
    need_.Cover(DeviceHeadNeed(model_.config()));
    placement_.head = true;
    placement_.weight_bytes += *bytes;
  }

  const model::Model& model_;
  FfnMode mode_;
  RuntimePlan plan_;
  const device::RowLayout& layout_;
  const PlacementShares& shares_;
  Random& random_;
  LaneNeed need_;
  std::vector<size_t> attending_;
  Placement placement_;
};

}  // namespace hybrid_internal

// For an engine of these options, whose `ffn` is not kAuto.
inline Placement DrawPlacement(const model::Model& model,
                               const SessionOptions& options,
                               const device::RowLayout& layout,
                               const PlacementShares& shares, Random& random) {
  return hybrid_internal::PlacementDrawer(model, options, layout, shares,
                                          random)
      .Draw();
}

// With the device, if there is one.
class HybridRun : public OneSequence {
 public:
  HybridRun(std::shared_ptr<const model::Model> model,
            const SessionOptions& options,
            std::shared_ptr<device::Device> device, const Placement& placement)
      : OneSequence(std::move(model), options, [&](EngineOptions& engine) {
          engine.device = std::move(device);
          engine.placement = placement;
        }) {}

  // Tokens one by one, some together, and more than a device takes at once.
  std::vector<float> All() {
    constexpr size_t kCounts[] = {1, 5, 11, 1};
    return RunAll(9, kCounts);
  }
};

}  // namespace thermocline::engine::testing

#endif  // THERMOCLINE_ENGINE_TESTING_HYBRID_H_
