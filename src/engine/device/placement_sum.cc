#include "engine/device/placement_sum.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/math.h"
#include "engine/device/weight_loader.h"
#include "engine/kv/device_kv.h"

namespace thermocline::engine {
namespace {

// Devices allocate in pieces of so many bytes.
constexpr uint64_t kPieceBytes = 256;

uint64_t InPieces(uint64_t num_bytes) {
  return RoundUp(num_bytes, kPieceBytes);
}

}  // namespace

uint64_t PlacementSum::Bytes::total() const {
  return weights + records + kv + InPieces(need.device_bytes);
}

PlacementSum::PlacementSum(const model::Config& config,
                           const DeviceParts& parts, uint64_t num_kv_pages,
                           uint64_t budget)
    : config_(config),
      parts_(parts),
      num_kv_pages_(num_kv_pages),
      budget_(budget),
      layer_records_(parts.layers.size()) {
  placement_.layers.resize(parts.layers.size());
}

bool PlacementSum::Accept(const Bytes& bytes) {
  if (bytes.total() > budget_) return false;
  bytes_ = bytes;
  return true;
}

PlacementSum::Bytes PlacementSum::WithWeights(const PartCost& part,
                                              bool over_link) const {
  Bytes bytes = bytes_;
  (over_link ? bytes.linked : bytes.weights) += InPieces(part.num_bytes);
  bytes.need.Cover(part.need);
  return bytes;
}

bool PlacementSum::AddWhole(const PartCost& part, bool over_link) {
  return Accept(WithWeights(part, over_link));
}

bool PlacementSum::AddAttention(size_t layer_idx) {
  const PartCost& part = *parts_.layers[layer_idx].attention;
  std::vector<size_t> attending = attending_;
  attending.insert(std::ranges::lower_bound(attending, layer_idx), layer_idx);
  Bytes bytes = WithWeights(part, placement_.layers[layer_idx].over_link);
  bytes.kv = InPieces(DeviceKvBytes(config_, attending, num_kv_pages_));
  bytes.need.Cover(DeviceKvNeed());
  if (!Accept(bytes)) return false;
  attending_ = std::move(attending);
  placement_.layers[layer_idx].attention = true;
  return true;
}

bool PlacementSum::AddPredictor(size_t layer_idx) {
  LayerPlacement& placed = placement_.layers[layer_idx];
  placed.predictor =
      AddWhole(*parts_.layers[layer_idx].predictor, placed.over_link);
  return placed.predictor;
}

bool PlacementSum::AddHead(bool over_link) {
  if (!AddWhole(*parts_.head, over_link)) return false;
  placement_.head = true;
  placement_.head_over_link = over_link;
  return true;
}

// Neurons have one buffer per layer, with what the first brings along; experts
// one each, whose pieces the caller has counted.
bool PlacementSum::AddRecords(size_t layer_idx, uint64_t num_bytes) {
  const LayerParts& layer = parts_.layers[layer_idx];
  uint64_t& of_layer = layer_records_[layer_idx];
  const uint64_t after =
      of_layer + num_bytes + (of_layer == 0 ? layer.other_bytes : 0);
  Bytes bytes = bytes_;
  (placement_.layers[layer_idx].over_link ? bytes.linked : bytes.records) +=
      InPieces(after) - InPieces(of_layer);
  bytes.need.Cover(layer.ffn_need);
  if (!Accept(bytes)) return false;
  of_layer = after;
  return true;
}

bool PlacementSum::AddNeuron(size_t layer_idx, uint32_t neuron) {
  if (!AddRecords(layer_idx, parts_.layers[layer_idx].record_bytes)) {
    return false;
  }
  placement_.layers[layer_idx].resident.push_back(neuron);
  return true;
}

bool PlacementSum::AddExpert(size_t layer_idx, uint32_t expert) {
  const LayerParts& layer = parts_.layers[layer_idx];
  if (!AddRecords(layer_idx, InPieces(layer.expert_bytes[expert]))) {
    return false;
  }
  placement_.layers[layer_idx].experts.push_back(expert);
  return true;
}

bool PlacementSum::AddFfn(size_t layer_idx) {
  const LayerParts& layer = parts_.layers[layer_idx];
  LayerPlacement& placed = placement_.layers[layer_idx];
  if (layer.ffn == FfnForm::kMatrices) {
    placed.matrices =
        AddWhole({layer.matrix_bytes, layer.ffn_need}, placed.over_link);
    return placed.matrices;
  }
  const bool are_neurons = layer.ffn == FfnForm::kNeurons;
  const size_t count = are_neurons ? config_.layers[layer_idx].ffn.width
                                   : layer.expert_bytes.size();
  uint64_t num_bytes = count * layer.record_bytes;
  for (const uint64_t expert : layer.expert_bytes) {
    num_bytes += InPieces(expert);
  }
  if (!AddRecords(layer_idx, num_bytes)) return false;
  std::vector<uint32_t>& all = are_neurons ? placed.resident : placed.experts;
  all.resize(count);
  std::iota(all.begin(), all.end(), 0u);
  return true;
}

Placement PlacementSum::Take() {
  for (LayerPlacement& layer : placement_.layers) {
    std::ranges::sort(layer.resident);
    std::ranges::sort(layer.experts);
  }
  placement_.weight_bytes = bytes_.weights;
  placement_.record_bytes = bytes_.records;
  placement_.kv_bytes = bytes_.kv;
  placement_.linked_bytes = bytes_.linked;
  placement_.num_kv_pages = attending_.empty() ? 0 : num_kv_pages_;
  placement_.lane_bytes = InPieces(bytes_.need.device_bytes);
  if (bytes_.total() > 0) {
    placement_.pinned_bytes = InPieces(
        std::max(bytes_.need.pinned_bytes, WeightLoader::kStagingBytes));
  }
  return std::move(placement_);
}

}  // namespace thermocline::engine
