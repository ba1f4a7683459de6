#include "engine/device/planner.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/quote.h"
#include "base/remedy.h"
#include "base/units.h"
#include "engine/device/placement_parts.h"
#include "engine/device/placement_sum.h"
#include "engine/device/placement_worth.h"

namespace thermocline::engine {
namespace {

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

class Planner {
 public:
  Planner(const PlacementRequest& request, Demands of_tensors)
      : request_(request),
        config_(request.model->config()),
        of_tensors_(std::move(of_tensors)),
        demands_(DemandsWith(request.rules)),
        parts_(PlanDeviceParts(*request.model, request.choice, *request.layout,
                               request.context, demands_)) {}

  Result<Placement> Plan() {
    PlacementSum sum = NewSum(request_.vram);
    if (!AddDemanded(demands_, sum)) return Refuse();
    const std::vector<PlacedUnit> units =
        RankUnits(*request_.model, parts_, demands_, request_.choice.mode,
                  request_.num_kv_pages);
    for (const PlacedUnit& unit : units) Add(unit, sum);
    if (sum.device_bytes() == 0) {
      if (!units.empty()) return NothingFits(units);
      if (!parts_.left_out.empty()) return NothingCanBeThere();
    }
    Placement placement = sum.Take();
    placement.left_out = std::move(parts_.left_out);
    for (const std::string& pattern : demands_.in_vain) {
      placement.left_out.push_back(
          fmt::format("what {} names: norms, embeddings and routers always do",
                      Quote(pattern)));
    }
    return placement;
  }

 private:
  PlacementSum NewSum(uint64_t budget) const {
    return PlacementSum(config_, parts_, request_.num_kv_pages, budget);
  }

  Demands DemandsWith(const PlacementRules& rules) const {
    return Complete(config_, rules, of_tensors_);
  }

  // Whether all of it fits.
  bool AddDemanded(const Demands& demands, PlacementSum& sum) const {
    for (size_t i = 0; i < parts_.layers.size(); ++i) {
      const LayerDemands& layer = demands.layers[i];
      const LayerParts& parts = parts_.layers[i];
      if (layer.attention == Demand::kDevice && parts.attention &&
          !sum.AddAttention(i)) {
        return false;
      }
      if (layer.predictor == Demand::kDevice && parts.predictor &&
          !sum.AddPredictor(i)) {
        return false;
      }
      if (layer.ffn == Demand::kDevice && parts.ffn != FfnForm::kHost &&
          !sum.AddFfn(i)) {
        return false;
      }
    }
    return demands.head != Demand::kDevice || !parts_.head || sum.AddHead();
  }

  static bool Add(const PlacedUnit& unit, PlacementSum& sum) {
    switch (unit.kind) {
      case PlacedKind::kHead:
        return sum.AddHead();
      case PlacedKind::kPredictor:
        return sum.AddPredictor(unit.layer_idx);
      case PlacedKind::kMatrices:
        return sum.AddFfn(unit.layer_idx);
      case PlacedKind::kAttention:
        return sum.AddAttention(unit.layer_idx);
      case PlacedKind::kNeuron:
        return sum.AddNeuron(unit.layer_idx, unit.idx);
      case PlacedKind::kExpert:
        return sum.AddExpert(unit.layer_idx, unit.idx);
    }
    return false;
  }

  bool Fits(const PlacementRules& rules) const {
    PlacementSum sum = NewSum(request_.vram);
    return AddDemanded(DemandsWith(rules), sum);
  }

  // The largest number of layers below the one asked for that fits; none: what
  // tensors demand is too much alone.
  std::optional<size_t> MostLayers() const {
    const auto fits = [&](size_t count) {
      PlacementRules rules = request_.rules;
      rules.num_layers = count;
      return Fits(rules);
    };
    if (!request_.rules.num_layers || !fits(0)) return std::nullopt;
    size_t most = 0;
    size_t too_many =
        std::min(*request_.rules.num_layers, config_.num_layers + 1);
    while (most + 1 < too_many) {
      const size_t middle = std::midpoint(most, too_many);
      (fits(middle) ? most : too_many) = middle;
    }
    return most;
  }

  // The least number of layers whose experts stay on the host that makes the
  // rest fit; none: it does not.
  std::optional<size_t> LeastHostExperts() const {
    const auto fits = [&](size_t count) {
      PlacementRules rules = request_.rules;
      rules.num_host_experts = count;
      return Fits(rules);
    };
    const bool has_experts = CommonFfn(config_).num_experts > 0;
    if (!has_experts || !fits(config_.num_layers)) return std::nullopt;
    size_t too_few = request_.rules.num_host_experts;
    size_t least = config_.num_layers;
    while (too_few + 1 < least) {
      const size_t middle = std::midpoint(too_few, least);
      (fits(middle) ? least : too_few) = middle;
    }
    return least;
  }

  tl::unexpected<Error> Refuse() const {
    PlacementSum all = NewSum(kNoLimit);
    (void)AddDemanded(demands_, all);
    std::string would_fit;
    Advice advice = {Remedy::kVram};
    if (const std::optional<size_t> most = MostLayers()) {
      advice = {Remedy::kDeviceLayers, static_cast<int64_t>(*most)};
      would_fit = fmt::format("; {} would fit", Plural(*most, "layer"));
      if (const std::optional<size_t> least = LeastHostExperts()) {
        advice = {Remedy::kHostExperts, static_cast<int64_t>(*least)};
        would_fit += fmt::format(
            ", or all that is asked for but the experts of the first {}",
            Plural(*least, "layer"));
      }
    }
    return Fail(ErrorCode::kResourceExhausted, advice,
                "what is to be on the device takes {}, more than the {} of "
                "VRAM that there are for it{}",
                FormatBytes(all.device_bytes()), FormatBytes(request_.vram),
                would_fit);
  }

  tl::unexpected<Error> NothingFits(
      const std::vector<PlacedUnit>& units) const {
    uint64_t least = kNoLimit;
    for (const PlacedUnit& unit : units) {
      // One neuron of a layer stands for all of it.
      if (unit.kind == PlacedKind::kNeuron && unit.idx != 0) continue;
      PlacementSum alone = NewSum(kNoLimit);
      (void)Add(unit, alone);
      least = std::min(least, alone.device_bytes());
    }
    return Fail(ErrorCode::kResourceExhausted, Advice{Remedy::kVram},
                "a budget of {} of VRAM holds nothing of the model: with the "
                "activations at least {} are needed",
                FormatBytes(request_.vram), FormatBytes(least));
  }

  tl::unexpected<Error> NothingCanBeThere() const {
    return Fail(ErrorCode::kUnsupported,
                "{}: nothing of it can be on the device: {}",
                request_.model->file().path(), parts_.left_out.front());
  }

  const PlacementRequest& request_;
  const model::Config& config_;
  Demands of_tensors_;
  Demands demands_;
  DeviceParts parts_;
};

}  // namespace

Result<Placement> PlanPlacement(const PlacementRequest& request) {
  TC_ASSIGN_OR_RETURN(Demands of_tensors,
                      DemandsOfTensors(*request.model, request.rules));
  return Planner(request, std::move(of_tensors)).Plan();
}

}  // namespace thermocline::engine
