// Placements and devices for tests of whole engines.
#ifndef THERMOCLINE_ENGINE_TESTING_TEST_PLACEMENT_H_
#define THERMOCLINE_ENGINE_TESTING_TEST_PLACEMENT_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/math.h"
#include "device/sim/sim_device.h"
#include "device/sim/test_machine.h"
#include "engine/attention/device_attention.h"
#include "engine/device/placement.h"
#include "engine/ffn/device_ffn.h"
#include "engine/ffn/device_selector.h"
#include "engine/forward/device_head.h"
#include "engine/kv/device_kv.h"
#include "engine/runtime.h"
#include "engine/testing/one_sequence.h"
#include "engine/testing/tiny_model.h"

namespace thermocline::engine::testing {

// Layers [first, end), and the head.
struct PlacedParts {
  bool attention = true;
  bool predictors = false;
  bool neurons = false;  // every other one; of prepared files
  bool head = true;
  size_t first = 0;
  size_t end = SIZE_MAX;
};

// For the pages and the context that the options come to.
class Placer {
 public:
  Placer(const model::Model& model, const SessionOptions& options,
         const device::RowLayout& layout, const PlacedParts& parts)
      : model_(model),
        config_(model.config()),
        layout_(layout),
        parts_(parts),
        plan_(PlanRuntime(config_, options).value()) {}

  Placement Place() {
    placement_.layers.resize(config_.num_layers);
    placement_.num_kv_pages = plan_.num_kv_pages;
    for (size_t i = parts_.first; i < std::min(parts_.end, config_.num_layers);
         ++i) {
      AddLayer(i);
    }
    placement_.head = parts_.head;
    if (parts_.head) {
      AddWeights(DeviceHeadBytes(model_.weights().head, layout_));
      need_.Cover(DeviceHeadNeed(config_));
    }
    placement_.kv_bytes =
        DeviceKvBytes(config_, attending_, placement_.num_kv_pages);
    placement_.lane_bytes = need_.device_bytes;
    placement_.pinned_bytes = need_.pinned_bytes;
    return placement_;
  }

 private:
  void AddLayer(size_t layer_idx) {
    const model::LayerWeights& weights = model_.weights().layers[layer_idx];
    LayerPlacement& layer = placement_.layers[layer_idx];
    layer.attention = parts_.attention;
    layer.predictor = parts_.predictors && weights.predictor.up;
    if (layer.attention) {
      attending_.push_back(layer_idx);
      AddWeights(
          DeviceAttentionBytes(config_, layer_idx, weights.attention, layout_));
      need_.Cover(
          DeviceAttentionNeed(config_, layer_idx, plan_.engine.context));
    }
    if (layer.predictor) {
      AddWeights(DeviceSelectorBytes(weights.predictor, layout_));
      need_.Cover(DeviceSelectorNeed(weights.predictor));
    }
    if (!parts_.neurons) return;
    const model::FfnSpec& spec = config_.layers[layer_idx].ffn;
    for (uint32_t n = 0; n < spec.width; n += 2) layer.resident.push_back(n);
    const auto records = PlanDeviceRecords(spec, weights.ffn, layout_).value();
    placement_.record_bytes +=
        RoundUp(records.BytesFor(layer.resident.size()), uint64_t{256});
    need_.Cover(DeviceFfnNeed(spec, config_.width));
  }

  void AddWeights(const Result<uint64_t>& num_bytes) {
    placement_.weight_bytes += RoundUp(num_bytes.value(), uint64_t{256});
  }

  const model::Model& model_;
  const model::Config& config_;
  const device::RowLayout& layout_;
  PlacedParts parts_;
  RuntimePlan plan_;
  LaneNeed need_ = DeviceKvNeed();
  std::vector<size_t> attending_;
  Placement placement_;
};

inline Placement Place(const model::Model& model, const SessionOptions& options,
                       const device::RowLayout& layout,
                       const PlacedParts& parts) {
  return Placer(model, options, layout, parts).Place();
}

// Without a device the host computes all.
class PlacedRun : public OneSequence {
 public:
  PlacedRun(const std::shared_ptr<const model::Model>& model,
            const SessionOptions& options,
            const std::shared_ptr<device::Device>& device,
            const PlacedParts& parts = {})
      : OneSequence(model, options, [&](EngineOptions& engine) {
          engine.device = device;
          if (device == nullptr) return;
          engine.placement = Place(*model, options, device->layout(), parts);
        }) {}

  struct Turn {
    Phase phase;
    size_t count;  // tokens, computed together
  };

  // The logits of all tokens.
  std::vector<float> Talk(std::span<const Turn> turns) {
    std::vector<float> all;
    for (const Turn& turn : turns) {
      const auto vocab_size =
          static_cast<size_t>(engine().model().config().vocab_size);
      const auto more =
          Run(RandomTokens(turn.count, vocab_size, 100 + all.size()),
              turn.phase)
              .value();
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }
};

// Work is done as late as it may be.
inline std::shared_ptr<device::SimDevice> MakeLateSim() {
  return device::MakeSim(device::TestMachine(), {.is_late = true});
}

}  // namespace thermocline::engine::testing

#endif  // THERMOCLINE_ENGINE_TESTING_TEST_PLACEMENT_H_
