#include "residency/momentum_policy.h"

#include <algorithm>

#include "base/check.h"
#include "residency/layered_policy.h"
#include "residency/ranked_residents.h"

namespace thermocline::residency {
namespace {

class MomentumLayer {
 public:
  MomentumLayer(const LayerExtent& extent, const MomentumOptions& options)
      : options_(options),
        lambda_(static_cast<float>(options.lambda)),
        residents_(extent) {}

  void Begin(uint32_t unit) { residents_.Begin(unit); }
  void Drop(uint32_t unit) { residents_.Drop(unit); }

  // Lines 1 to 6.
  void Tell(Bottleneck what) {
    if (!options_.adapts) return;
    const auto alpha = static_cast<float>(options_.alpha);
    if (what == Bottleneck::kMoves) {
      lambda_ =
          std::min(lambda_ * (1.0f + alpha), static_cast<float>(options_.max));
    } else if (what == Bottleneck::kMisses) {
      lambda_ =
          std::max(lambda_ * (1.0f - alpha), static_cast<float>(options_.min));
    }
  }

  // Lines 7 to 15.
  void Observe(const neuron::NeuronSet& units, const UsedMembers& used) {
    std::vector<float>& scores = residents_.NewPass(units);
    for (uint32_t unit = 0; unit < scores.size(); ++unit) {
      const float active = units.Has(unit) ? used.ShareOf(unit) : 0.0f;
      scores[unit] = lambda_ * scores[unit] + (1.0f - lambda_) * active;
    }
    const bool has_tau = options_.has_tau && lambda_ > 0.0f;
    tau_ =
        has_tau ? 1.0f - lambda_ + static_cast<float>(options_.epsilon) : 0.0f;
  }

  Policy::Answer Admit(uint32_t unit, const neuron::NeuronSet& pinned) {
    if (residents().is_full() && residents_.ScoreOf(unit) <= tau_) return {};
    return residents_.Admit(unit, pinned);
  }

  // Lines 16 to 19. The best `capacity` candidates are those before which
  // nobody resident is better: as long as the best missing one beats the worst
  // resident, they change places.
  std::vector<Policy::Move> Propose(size_t most) {
    return residents_.Propose(most, tau_);
  }
  const ResidentSet& residents() const { return residents_.set(); }

 private:
  MomentumOptions options_;
  float lambda_;
  float tau_ = 0.0f;
  RankedResidents residents_;
};

}  // namespace

std::unique_ptr<Policy> MakeMomentum(const std::vector<LayerExtent>& layers,
                                     const MomentumOptions& options) {
  TC_CHECK(options.lambda >= 0.0 && options.lambda < 1.0);
  TC_CHECK(options.alpha >= 0.0 && options.alpha < 1.0);
  TC_CHECK(options.epsilon >= 0.0 && options.min <= options.max);
  return std::make_unique<LayeredPolicy<MomentumLayer>>(layers, options);
}

}  // namespace thermocline::residency
