#include "engine/device/listed_placement.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "base/remedy.h"
#include "base/units.h"
#include "engine/device/placement_parts.h"
#include "engine/device/placement_sum.h"

namespace thermocline::engine {
namespace {

Status CheckIds(std::span<const uint32_t> ids, size_t count,
                std::string_view what) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= count) {
      return Fail(ErrorCode::kInvalidArgument, "{} {}: there are {}", what,
                  ids[i], count);
    }
    if (i > 0 && ids[i] <= ids[i - 1]) {
      return Fail(ErrorCode::kInvalidArgument,
                  "{} {} behind {}: they are ascending", what, ids[i],
                  ids[i - 1]);
    }
  }
  return {};
}

// Adds what is listed; what does not fit is what the sum's budget says.
class Lister {
 public:
  Lister(const PlacementRequest& request, const DeviceParts& parts)
      : request_(request),
        parts_(parts),
        sum_(request.model->config(), parts, request.num_kv_pages,
             std::numeric_limits<uint64_t>::max()) {}

  Status AddLayer(size_t layer_idx, const LayerPlacement& listed) {
    const LayerParts& there = parts_.layers[layer_idx];
    const model::FfnSpec& ffn = request_.model->config().layers[layer_idx].ffn;
    TC_RETURN_IF_ERROR(CheckIds(listed.resident, ffn.width, "neuron"));
    TC_RETURN_IF_ERROR(CheckIds(listed.experts, ffn.num_experts, "expert"));
    const auto require = [](bool is_listed, bool can_be,
                            std::string_view what) {
      if (!is_listed || can_be) return Status();
      return Status(Fail(ErrorCode::kInvalidArgument,
                         "{} cannot be on this device", what));
    };
    TC_RETURN_IF_ERROR(
        require(listed.attention, there.attention.has_value(), "attention"));
    TC_RETURN_IF_ERROR(require(listed.predictor, there.predictor.has_value(),
                               "the predictor"));
    TC_RETURN_IF_ERROR(require(listed.matrices, there.ffn == FfnForm::kMatrices,
                               "the FFN as matrices"));
    TC_RETURN_IF_ERROR(require(!listed.resident.empty(),
                               there.ffn == FfnForm::kNeurons, "neurons"));
    TC_RETURN_IF_ERROR(require(!listed.experts.empty(),
                               there.ffn == FfnForm::kExperts, "experts"));
    if (listed.attention) (void)sum_.AddAttention(layer_idx);
    if (listed.predictor) (void)sum_.AddPredictor(layer_idx);
    if (listed.matrices) (void)sum_.AddFfn(layer_idx);
    for (const uint32_t i : listed.resident) (void)sum_.AddNeuron(layer_idx, i);
    for (const uint32_t i : listed.experts) (void)sum_.AddExpert(layer_idx, i);
    return {};
  }

  // All that the layer can have there; a layer that is listed has it.
  Status AddRest(size_t layer_idx, const LayerPlacement& listed) {
    const LayerParts& there = parts_.layers[layer_idx];
    const size_t num_neurons =
        there.ffn == FfnForm::kNeurons
            ? request_.model->config().layers[layer_idx].ffn.width
            : 0;
    const bool is_whole =
        listed.attention == there.attention.has_value() &&
        listed.predictor == there.predictor.has_value() &&
        listed.matrices == (there.ffn == FfnForm::kMatrices) &&
        listed.resident.size() == num_neurons &&
        listed.experts.size() == there.expert_bytes.size();
    if (is_whole) return {};
    if (HasAnything(listed)) {
      return Fail(ErrorCode::kInvalidArgument,
                  "part of it is on the device, part is to cross the link: "
                  "layers are placed whole");
    }
    sum_.PutOverLink(layer_idx);
    if (there.attention) (void)sum_.AddAttention(layer_idx);
    if (there.predictor) (void)sum_.AddPredictor(layer_idx);
    if (there.ffn != FfnForm::kHost) (void)sum_.AddFfn(layer_idx);
    return {};
  }

  Result<Placement> Take(bool head, bool rest_over_link) {
    if (head && !parts_.head) {
      return Fail(ErrorCode::kInvalidArgument,
                  "the head cannot be on this device");
    }
    if (head) (void)sum_.AddHead();
    if (!head && rest_over_link && parts_.head) {
      (void)sum_.AddHead(/*over_link=*/true);
    }
    if (sum_.device_bytes() > request_.vram) {
      return Fail(ErrorCode::kResourceExhausted, Advice{Remedy::kVram},
                  "the plan takes {}, more than the {} of VRAM that there are "
                  "for it",
                  FormatBytes(sum_.device_bytes()), FormatBytes(request_.vram));
    }
    return sum_.Take();
  }

 private:
  const PlacementRequest& request_;
  const DeviceParts& parts_;
  PlacementSum sum_;
};

}  // namespace

Result<Placement> PlaceListed(const PlacementRequest& request,
                              const ListedParts& parts) {
  const model::Config& config = request.model->config();
  const bool rest_over_link = parts.rest_over_link;
  if (parts.layers.size() != config.num_layers) {
    return Fail(ErrorCode::kInvalidArgument, "a plan of {}: the model has {}",
                Plural(parts.layers.size(), "layer"), config.num_layers);
  }
  PlacementRules rules;
  if (rest_over_link) rules = request.rules;
  TC_ASSIGN_OR_RETURN(Demands of_tensors,
                      DemandsOfTensors(*request.model, rules));
  const Demands all = Complete(config, rules, std::move(of_tensors));
  DeviceParts there = PlanDeviceParts(*request.model, request.choice,
                                      *request.layout, request.context, all);
  Lister lister(request, there);
  for (size_t i = 0; i < parts.layers.size(); ++i) {
    Status status = lister.AddLayer(i, parts.layers[i]);
    if (status && rest_over_link) status = lister.AddRest(i, parts.layers[i]);
    if (!status) return Annotate(fmt::format("layer {}", i), status.error());
  }
  TC_ASSIGN_OR_RETURN(Placement placement,
                      lister.Take(parts.head, rest_over_link));
  if (!rest_over_link) return placement;
  if (placement.empty() && !there.left_out.empty()) {
    return Fail(ErrorCode::kUnsupported,
                "{}: nothing of it can be on the device: {}",
                request.model->file().path(), there.left_out.front());
  }
  placement.left_out = std::move(there.left_out);
  return placement;
}

}  // namespace thermocline::engine
