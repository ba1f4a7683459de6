#include "synth/activity.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "synth/math.h"

namespace thermocline::synth {
namespace {

constexpr double kMaxExponent = 30.0;
constexpr int kSteps = 60;  // of bisections

double Sum(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += value;
  return sum;
}

// min(kMaxShare, c * q^-exponent) at the middle q of each rank, c chosen for
// the density.
class PowerLaw {
 public:
  PowerLaw(size_t num_neurons, double density) : density_(density) {
    for (size_t i = 0; i < num_neurons; ++i) {
      logs_.push_back(StableLog((static_cast<double>(i) + 0.5) /
                                static_cast<double>(num_neurons)));
    }
  }

  std::vector<double> Shares(double exponent) const {
    std::vector<double> base;
    for (const double log : logs_) base.push_back(StableExp(-exponent * log));
    double low = -600.0;  // of log c; at 0 no share is below kMaxShare
    double high = 0.0;
    for (int i = 0; i < kSteps; ++i) {
      const double middle = 0.5 * (low + high);
      (Mean(base, StableExp(middle)) < density_ ? low : high) = middle;
    }
    const double factor = StableExp(0.5 * (low + high));
    for (double& share : base) share = std::min(kMaxShare, factor * share);
    return base;
  }

 private:
  static double Mean(const std::vector<double>& base, double factor) {
    double sum = 0.0;
    for (const double b : base) sum += std::min(kMaxShare, factor * b);
    return sum / static_cast<double>(base.size());
  }

  double density_;
  std::vector<double> logs_;  // of q
};

// What PossibleLocality says and SolveCorrelation inverts, at the arcsine of
// the correlation. Shares are taken in groups of neighbours.
class Locality {
 public:
  explicit Locality(const std::vector<double>& shares) {
    constexpr size_t kGroups = 128;
    const size_t group = (shares.size() + kGroups - 1) / kGroups;
    for (size_t i = 0; i < shares.size(); i += group) {
      const size_t end = std::min(shares.size(), i + group);
      double sum = 0.0;
      for (size_t k = i; k < end; ++k) sum += shares[k];
      thresholds_.push_back(
          NormalThreshold(sum / static_cast<double>(end - i)));
      counts_.push_back(static_cast<double>(end - i));
    }
  }

  double At(double angle) const {
    double both = 0.0;
    double one = 0.0;
    for (size_t i = 0; i < thresholds_.size(); ++i) {
      both += counts_[i] * NormalJointTail(thresholds_[i], angle);
      one += counts_[i] * NormalTail(thresholds_[i]);
    }
    return both / one;
  }

 private:
  std::vector<double> thresholds_;
  std::vector<double> counts_;
};

double MaxAngle() {
  double low = 0.0;
  double high = 0.5 * kPi;
  for (int i = 0; i < kSteps; ++i) {
    const double middle = 0.5 * (low + high);
    (StableSin(middle) < kMaxCorrelation ? low : high) = middle;
  }
  return low;
}

}  // namespace

double SkewOf(const std::vector<double>& shares) {
  const double wanted = kSkewMass * Sum(shares);
  double sum = 0.0;
  for (size_t i = 0; i < shares.size(); ++i) {
    if (sum + shares[i] >= wanted) {
      const double part = shares[i] > 0.0 ? (wanted - sum) / shares[i] : 0.0;
      return (static_cast<double>(i) + part) /
             static_cast<double>(shares.size());
    }
    sum += shares[i];
  }
  return 1.0;
}

Result<std::vector<double>> SolveShares(size_t num_neurons, double density,
                                        double skew) {
  TC_CHECK(num_neurons > 0);
  if (!(density > 0.0 && density <= kMaxDensity)) {
    return Fail(ErrorCode::kInvalidArgument,
                "a density of {} is not possible; above 0, to {}", density,
                kMaxDensity);
  }
  const PowerLaw law(num_neurons, density);
  double low = 0.0;  // the exponent; more of it, less neurons carry the mass
  double high = kMaxExponent;
  const double most = SkewOf(law.Shares(low));
  const double least = SkewOf(law.Shares(high));
  if (!(skew >= least && skew <= most)) {
    return Fail(ErrorCode::kInvalidArgument,
                "a skew of {} is not possible with a density of {}; {:.3f} to "
                "{:.3f} is: the busiest are active for {} of all tokens at "
                "most",
                skew, density, std::ceil(least * 1e3) / 1e3,
                std::floor(most * 1e3) / 1e3, kMaxShare);
  }
  for (int i = 0; i < kSteps; ++i) {
    const double middle = 0.5 * (low + high);
    (SkewOf(law.Shares(middle)) > skew ? low : high) = middle;
  }
  return law.Shares(0.5 * (low + high));
}

std::vector<double> CandidateShares(const std::vector<double>& shares,
                                    double ratio) {
  const double wanted = ratio * Sum(shares);
  TC_CHECK(wanted < kMaxCandidateShare * static_cast<double>(shares.size()));
  const auto scaled = [&](double factor) {
    std::vector<double> candidates;
    for (const double share : shares) {
      candidates.push_back(std::min(kMaxCandidateShare, factor * share));
    }
    return candidates;
  };
  double low = 1.0;
  double high = 2.0;
  while (Sum(scaled(high)) < wanted) high *= 2.0;
  for (int i = 0; i < kSteps; ++i) {
    const double middle = 0.5 * (low + high);
    (Sum(scaled(middle)) < wanted ? low : high) = middle;
  }
  return scaled(0.5 * (low + high));
}

LocalityRange PossibleLocality(const std::vector<double>& shares) {
  const Locality locality(shares);
  return {locality.At(0.0), locality.At(MaxAngle())};
}

Result<double> SolveCorrelation(const std::vector<double>& shares,
                                double locality) {
  const Locality at(shares);
  double low = 0.0;
  double high = MaxAngle();
  const double least = at.At(low);
  const double most = at.At(high);
  if (!(locality >= least && locality <= most)) {
    return Fail(ErrorCode::kInvalidArgument,
                "a locality of {} is not possible with this density and skew; "
                "{:.3f} to {:.3f} is: tokens that have nothing in common share "
                "the busy neurons",
                locality, std::ceil(least * 1e3) / 1e3,
                std::floor(most * 1e3) / 1e3);
  }
  for (int i = 0; i < kSteps; ++i) {
    const double middle = 0.5 * (low + high);
    (at.At(middle) < locality ? low : high) = middle;
  }
  return StableSin(0.5 * (low + high));
}

}  // namespace thermocline::synth
