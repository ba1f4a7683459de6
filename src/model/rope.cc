#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace thermocline::model {
namespace {

// Rotations over the trained context below which YaRN leaves a pair alone, and
// above which it interpolates it fully.
constexpr double kBetaFast = 32.0;
constexpr double kBetaSlow = 1.0;

// The pair that turns `beta` times over the trained context.
double CorrectionPair(const RopeConfig& config, double beta) {
  const double context = static_cast<double>(config.original_context);
  return static_cast<double>(config.width) *
         std::log(context / (beta * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(static_cast<double>(config.freq_base)));
}

// How far YaRN keeps the unscaled angle of each pair: 1 for the fast pairs, 0
// for the slow ones, a ramp between them.
class YarnRamp {
 public:
  explicit YarnRamp(const RopeConfig& config)
      : low_(std::max(0.0, std::floor(CorrectionPair(config, kBetaFast)))),
        high_(std::min(static_cast<double>(config.width) - 1.0,
                       std::ceil(CorrectionPair(config, kBetaSlow)))) {}

  double At(size_t pair) const {
    const double y =
        (static_cast<double>(pair) - low_) / std::max(0.001, high_ - low_);
    return 1.0 - std::clamp(y, 0.0, 1.0);
  }

 private:
  double low_;
  double high_;
};

}  // namespace

RopeTable::RopeTable(const RopeConfig& config,
                     std::span<const float> freq_factors)
    : freqs_(config.width / 2), magnitude_(config.attention_factor) {
  TC_CHECK(freq_factors.empty() || freq_factors.size() == freqs_.size());
  const double base = config.freq_base;
  const double factor =
      config.scaling == RopeScaling::kNone ? 1.0 : config.factor;
  const bool yarn = config.scaling == RopeScaling::kYarn;
  const YarnRamp ramp(config);
  for (size_t i = 0; i < freqs_.size(); ++i) {
    double freq = std::pow(base, -2.0 * static_cast<double>(i) /
                                     static_cast<double>(config.width));
    if (!freq_factors.empty()) freq /= static_cast<double>(freq_factors[i]);
    const double keep = yarn ? ramp.At(i) : 0.0;
    freqs_[i] = freq / factor * (1.0 - keep) + freq * keep;
  }
  if (yarn) {
    magnitude_ =
        static_cast<float>(magnitude_ * (1.0 + 0.1 * std::log(factor)));
  }
}

void RopeTable::Angles(int64_t position, float* cos, float* sin) const {
  for (size_t i = 0; i < freqs_.size(); ++i) {
    const double theta = static_cast<double>(position) * freqs_[i];
    cos[i] = static_cast<float>(std::cos(theta)) * magnitude_;
    sin[i] = static_cast<float>(std::sin(theta)) * magnitude_;
  }
}

}  // namespace thermocline::model
