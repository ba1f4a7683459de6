#include "residency/macro_micro_policy.h"

#include <algorithm>

#include "base/check.h"
#include "residency/layered_policy.h"
#include "residency/ranked_residents.h"

namespace thermocline::residency {
namespace {

class MacroMicroLayer {
 public:
  MacroMicroLayer(const LayerExtent& extent, const MacroMicroOptions& options)
      : lambda_(static_cast<float>(options.lambda)),
        phi_(options.phi),
        above_all_(2.0f + lambda_),
        num_passes_(extent.frequency.empty() ? 0.0 : options.prior),
        uses_(extent.num_units, 0.0),
        residents_(extent) {
    for (size_t i = 0; i < extent.frequency.size(); ++i) {
      uses_[i] = options.prior * std::min(1.0, double{extent.frequency[i]});
    }
  }

  void Begin(uint32_t unit) { residents_.Begin(unit); }
  void Drop(uint32_t unit) { residents_.Drop(unit); }

  void Observe(const neuron::NeuronSet& units, const UsedMembers& used) {
    num_passes_ += 1.0;
    std::vector<float>& scores = residents_.NewPass(units);
    for (uint32_t unit = 0; unit < scores.size(); ++unit) {
      const float active = units.Has(unit) ? used.ShareOf(unit) : 0.0f;
      uses_[unit] += active;
      const double frequency = uses_[unit] / num_passes_;
      scores[unit] = active + lambda_ * static_cast<float>(frequency);
      if (frequency >= phi_) scores[unit] += above_all_;
    }
  }

  Policy::Answer Admit(uint32_t unit, const neuron::NeuronSet& pinned) {
    return residents_.Admit(unit, pinned);
  }
  std::vector<Policy::Move> Propose(size_t most) {
    return residents_.Propose(most, 0.0f);
  }
  const ResidentSet& residents() const { return residents_.set(); }

 private:
  float lambda_;
  double phi_;
  float above_all_;  // more than v can be
  double num_passes_;
  std::vector<double> uses_;  // shares, added up
  RankedResidents residents_;
};

}  // namespace

std::unique_ptr<Policy> MakeMacroMicro(const std::vector<LayerExtent>& layers,
                                       const MacroMicroOptions& options) {
  TC_CHECK(options.lambda >= 0.0 && options.phi > 0.0 && options.prior >= 0.0);
  return std::make_unique<LayeredPolicy<MacroMicroLayer>>(layers, options);
}

}  // namespace thermocline::residency
