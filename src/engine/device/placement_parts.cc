#include "engine/device/placement_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "engine/attention/device_attention.h"
#include "engine/ffn/device_experts.h"
#include "engine/ffn/device_ffn.h"
#include "engine/ffn/device_matrices.h"
#include "engine/ffn/device_selector.h"
#include "engine/ffn/ffn_layers.h"
#include "engine/forward/device_head.h"

namespace thermocline::engine {
namespace {

// "layer 3", "layers 0 to 5, 7" from ascending numbers.
std::string NameLayers(const std::vector<size_t>& layers) {
  std::vector<std::string> ranges;
  for (size_t i = 0; i < layers.size();) {
    size_t end = i + 1;
    while (end < layers.size() && layers[end] == layers[end - 1] + 1) ++end;
    ranges.push_back(end - i == 1
                         ? fmt::format("{}", layers[i])
                         : fmt::format("{} to {}", layers[i], layers[end - 1]));
    i = end;
  }
  return fmt::format("{} {}", layers.size() == 1 ? "layer" : "layers",
                     fmt::join(ranges, ", "));
}

// Reasons, each with the layers that have it.
class Reasons {
 public:
  void Add(std::string_view part, size_t layer_idx, const Error& error) {
    const auto is_same = [&](const Reason& reason) {
      return reason.part == part && reason.why == error.message;
    };
    auto found = std::ranges::find_if(reasons_, is_same);
    if (found == reasons_.end()) {
      found = reasons_.insert(found, {part, error.message, {}});
    }
    found->layers.push_back(layer_idx);
  }
  std::vector<std::string> All() const {
    std::vector<std::string> all;
    for (const Reason& reason : reasons_) {
      all.push_back(fmt::format("{} of {}: {}", reason.part,
                                NameLayers(reason.layers), reason.why));
    }
    return all;
  }

 private:
  struct Reason {
    std::string_view part;
    std::string why;
    std::vector<size_t> layers;
  };
  std::vector<Reason> reasons_;
};

class PartPlanner {
 public:
  PartPlanner(const model::Model& model, const FfnChoice& choice,
              const device::RowLayout& layout, int64_t context)
      : model_(model), choice_(choice), layout_(layout), context_(context) {}

  DeviceParts Plan(const Demands& demands) {
    parts_.layers.resize(demands.layers.size());
    for (size_t i = 0; i < demands.layers.size(); ++i) {
      const LayerDemands& layer = demands.layers[i];
      if (layer.attention != Demand::kHost) PlanAttention(i);
      if (layer.predictor != Demand::kHost) PlanPredictor(i);
      if (layer.ffn != Demand::kHost) PlanFfn(i);
    }
    parts_.left_out = reasons_.All();
    if (demands.head != Demand::kHost) PlanHead();
    return std::move(parts_);
  }

 private:
  const model::LayerWeights& weights(size_t layer_idx) const {
    return model_.weights().layers[layer_idx];
  }
  const model::FfnSpec& spec(size_t layer_idx) const {
    return model_.config().layers[layer_idx].ffn;
  }
  uint64_t width() const { return model_.config().width; }

  void PlanAttention(size_t layer_idx) {
    const Result<uint64_t> bytes = DeviceAttentionBytes(
        model_.config(), layer_idx, weights(layer_idx).attention, layout_);
    if (!bytes) return reasons_.Add("attention", layer_idx, bytes.error());
    parts_.layers[layer_idx].attention = {
        *bytes, DeviceAttentionNeed(model_.config(), layer_idx, context_)};
  }

  // Experts ask theirs one by one, on the host.
  void PlanPredictor(size_t layer_idx) {
    const model::PredictorWeights& predictor = weights(layer_idx).predictor;
    const bool is_asked = choice_.mode == FfnMode::kFast &&
                          choice_.predictor == PredictorChoice::kTrained &&
                          predictor.up && spec(layer_idx).num_experts == 0;
    if (!is_asked) return;
    const Result<uint64_t> bytes = DeviceSelectorBytes(predictor, layout_);
    if (!bytes) return reasons_.Add("the predictor", layer_idx, bytes.error());
    parts_.layers[layer_idx].predictor = {*bytes,
                                          DeviceSelectorNeed(predictor)};
  }

  void PlanFfn(size_t layer_idx) {
    const model::FfnWeights& ffn = weights(layer_idx).ffn;
    Status planned;
    if (spec(layer_idx).num_experts > 0) {
      planned = PlanExperts(layer_idx, ffn);
    } else if (choice_.mode == FfnMode::kDense && !SharesNeuronsInDense(ffn)) {
      planned = PlanMatrices(layer_idx, ffn);
    } else {
      planned = PlanNeurons(layer_idx, ffn);
    }
    if (!planned) reasons_.Add("the FFN", layer_idx, planned.error());
  }

  Status PlanExperts(size_t layer_idx, const model::FfnWeights& ffn) {
    LayerParts& layer = parts_.layers[layer_idx];
    std::vector<uint64_t> expert_bytes;
    for (const model::FfnMatrices& expert : ffn.experts) {
      TC_ASSIGN_OR_RETURN(
          const uint64_t bytes,
          DeviceExpertBytes(spec(layer_idx), expert, choice_.mode, layout_));
      expert_bytes.push_back(bytes);
    }
    layer.expert_bytes = std::move(expert_bytes);
    layer.ffn_need = DeviceExpertsNeed(spec(layer_idx), width());
    layer.ffn = FfnForm::kExperts;
    return {};
  }

  Status PlanMatrices(size_t layer_idx, const model::FfnWeights& ffn) {
    LayerParts& layer = parts_.layers[layer_idx];
    TC_ASSIGN_OR_RETURN(layer.matrix_bytes,
                        DeviceMatricesBytes(spec(layer_idx), ffn, layout_));
    layer.ffn_need = DeviceMatricesNeed(spec(layer_idx), width());
    layer.ffn = FfnForm::kMatrices;
    return {};
  }

  Status PlanNeurons(size_t layer_idx, const model::FfnWeights& ffn) {
    LayerParts& layer = parts_.layers[layer_idx];
    TC_ASSIGN_OR_RETURN(const DeviceRecords records,
                        PlanDeviceRecords(spec(layer_idx), ffn, layout_));
    layer.record_bytes = records.record_bytes;
    layer.other_bytes = records.other_bytes;
    layer.ffn_need = DeviceFfnNeed(spec(layer_idx), width());
    layer.ffn = FfnForm::kNeurons;
    return {};
  }

  void PlanHead() {
    const Result<uint64_t> bytes =
        DeviceHeadBytes(model_.weights().head, layout_);
    if (bytes) {
      parts_.head = {*bytes, DeviceHeadNeed(model_.config())};
    } else {
      parts_.left_out.push_back(
          fmt::format("the head: {}", bytes.error().message));
    }
  }

  const model::Model& model_;
  const FfnChoice& choice_;
  const device::RowLayout& layout_;
  int64_t context_;
  Reasons reasons_;
  DeviceParts parts_;
};

}  // namespace

DeviceParts PlanDeviceParts(const model::Model& model, const FfnChoice& choice,
                            const device::RowLayout& layout, int64_t context,
                            const Demands& demands) {
  return PartPlanner(model, choice, layout, context).Plan(demands);
}

}  // namespace thermocline::engine
