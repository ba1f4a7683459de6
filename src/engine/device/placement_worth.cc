#include "engine/device/placement_worth.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>

#include "engine/kv/device_kv.h"

namespace thermocline::engine {
namespace {

// How often the neurons of a model fired, if it has a profile.
class Profile {
 public:
  explicit Profile(const model::Model& model) : model_(model) {
    for (const model::LayerWeights& layer : model.weights().layers) {
      const TensorView& counts = layer.profile_counts;
      for (size_t i = 0; counts.in_memory() && i < counts.shape.ne[0]; ++i) {
        most_ = std::max(most_, CountOf(counts, i));
      }
    }
  }

  bool Has(size_t layer_idx) const { return CountsOf(layer_idx).in_memory(); }
  // Of the neuron that fires most, which fires for nearly every token.
  float ShareOf(size_t layer_idx, size_t neuron) const {
    return static_cast<float>(CountOf(CountsOf(layer_idx), neuron)) /
           static_cast<float>(most_);
  }
  // Of `count` neurons from `first` on.
  double MeanOf(size_t layer_idx, size_t first, size_t count) const {
    double sum = 0.0;
    for (size_t i = first; i < first + count; ++i) {
      sum += static_cast<double>(ShareOf(layer_idx, i));
    }
    return sum / static_cast<double>(count);
  }

 private:
  const TensorView& CountsOf(size_t layer_idx) const {
    return model_.weights().layers[layer_idx].profile_counts;
  }
  static int32_t CountOf(const TensorView& counts, size_t neuron) {
    int32_t count = 0;
    std::memcpy(&count, counts.data + neuron * sizeof(count), sizeof(count));
    return count;
  }

  const model::Model& model_;
  int32_t most_ = 1;
};

class Ranker {
 public:
  Ranker(const model::Model& model, const DeviceParts& parts,
         const Demands& demands, FfnMode mode, uint64_t num_kv_pages)
      : model_(model),
        parts_(parts),
        demands_(demands),
        mode_(mode),
        num_kv_pages_(num_kv_pages),
        profile_(model) {}

  std::vector<PlacedUnit> Rank() {
    if (parts_.head && demands_.head == Demand::kNone) {
      units_.push_back({1.0f, PlacedKind::kHead});
    }
    for (size_t i = 0; i < parts_.layers.size(); ++i) AddLayer(i);
    std::ranges::sort(units_, IsBefore);
    return std::move(units_);
  }

 private:
  static bool IsBefore(const PlacedUnit& a, const PlacedUnit& b) {
    if (a.worth != b.worth) return a.worth > b.worth;
    if (a.kind != b.kind) return a.kind < b.kind;
    if (a.kind == PlacedKind::kNeuron) {
      return std::tie(a.idx, a.layer_idx) < std::tie(b.idx, b.layer_idx);
    }
    return std::tie(b.layer_idx, a.idx) < std::tie(a.layer_idx, b.idx);
  }

  void Add(float worth, PlacedKind kind, size_t layer_idx, size_t idx = 0) {
    units_.push_back({worth, kind, static_cast<uint32_t>(layer_idx),
                      static_cast<uint32_t>(idx)});
  }

  void AddLayer(size_t layer_idx) {
    const LayerParts& parts = parts_.layers[layer_idx];
    const LayerDemands& demands = demands_.layers[layer_idx];
    if (parts.attention && demands.attention == Demand::kNone) {
      AddAttention(layer_idx, parts.attention->num_bytes);
    }
    if (parts.predictor && demands.predictor == Demand::kNone) {
      Add(1.0f, PlacedKind::kPredictor, layer_idx);
    }
    if (demands.ffn != Demand::kNone) return;
    if (parts.ffn == FfnForm::kMatrices) {
      Add(1.0f, PlacedKind::kMatrices, layer_idx);
    } else if (parts.ffn == FfnForm::kNeurons) {
      AddNeurons(layer_idx);
    } else if (parts.ffn == FfnForm::kExperts) {
      AddExperts(layer_idx);
    }
  }

  void AddAttention(size_t layer_idx, uint64_t weight_bytes) {
    const std::array<size_t, 1> layers = {layer_idx};
    const auto weights = static_cast<double>(weight_bytes);
    const auto kv = static_cast<double>(
        DeviceKvBytes(model_.config(), layers, num_kv_pages_));
    Add(static_cast<float>((weights + kv / 2) / (weights + kv)),
        PlacedKind::kAttention, layer_idx);
  }

  void AddNeurons(size_t layer_idx) {
    const size_t count = model_.config().layers[layer_idx].ffn.width;
    for (size_t i = 0; i < count; ++i) {
      float worth = 1.0f;
      if (mode_ != FfnMode::kDense) {
        worth = profile_.Has(layer_idx)
                    ? profile_.ShareOf(layer_idx, i)
                    : static_cast<float>(count - i) / static_cast<float>(count);
      }
      Add(worth, PlacedKind::kNeuron, layer_idx, i);
    }
  }

  // In dense mixtures the profile says which experts are chosen more often than
  // others, and nothing of how often.
  void AddExperts(size_t layer_idx) {
    const model::FfnSpec& spec = model_.config().layers[layer_idx].ffn;
    const double chosen = static_cast<double>(spec.num_experts_used) /
                          static_cast<double>(spec.num_experts);
    const bool has_profile = profile_.Has(layer_idx);
    const double mean =
        has_profile ? profile_.MeanOf(layer_idx, 0, NumNeurons(spec)) : 0.0;
    for (size_t i = 0; i < spec.num_experts; ++i) {
      double worth = chosen;
      if (has_profile && mean > 0.0) {
        worth = profile_.MeanOf(layer_idx, i * spec.width, spec.width);
        if (mode_ == FfnMode::kDense) worth *= chosen / mean;
      }
      Add(static_cast<float>(std::min(worth, 1.0)), PlacedKind::kExpert,
          layer_idx, i);
    }
  }

  const model::Model& model_;
  const DeviceParts& parts_;
  const Demands& demands_;
  FfnMode mode_;
  uint64_t num_kv_pages_;
  Profile profile_;
  std::vector<PlacedUnit> units_;
};

}  // namespace

std::vector<PlacedUnit> RankUnits(const model::Model& model,
                                  const DeviceParts& parts,
                                  const Demands& demands, FfnMode mode,
                                  uint64_t num_kv_pages) {
  return Ranker(model, parts, demands, mode, num_kv_pages).Rank();
}

}  // namespace thermocline::engine
