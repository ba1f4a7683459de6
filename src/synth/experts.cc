#include "synth/experts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/random.h"
#include "synth/activity.h"
#include "synth/math.h"

namespace thermocline::synth {
namespace {

constexpr size_t kDraws = size_t{1} << 18;  // of all experts together
constexpr int kFitSteps = 10;
constexpr int kBisections = 13;

// Nearly normal, exact in doubles: a sum of twelve uniform numbers.
double SumOfTwelve(Random& random) {
  uint64_t sum = 0;
  for (int i = 0; i < 3; ++i) {
    uint64_t word = random.Next();
    for (int k = 0; k < 4; ++k, word >>= 16) sum += word & 0xffff;
  }
  return static_cast<double>(sum) / 0x1.0p16 - 6.0;
}

// Tokens' choices over the same random numbers again and again.
class Choices {
 public:
  Choices(size_t num_experts, size_t num_used)
      : num_experts_(num_experts),
        num_used_(num_used),
        num_tokens_(kDraws / num_experts),
        logits_(num_experts) {
    TC_CHECK(num_used > 0 && num_used < num_experts);
    Random random(0x5eedu);
    for (size_t i = 0; i < num_tokens_ * num_experts_; ++i) {
      draws_.push_back(SumOfTwelve(random));
    }
  }

  std::vector<double> Shares(const std::vector<double>& biases) {
    std::vector<double> counts(num_experts_);
    std::vector<size_t> chosen;
    for (size_t t = 0; t < num_tokens_; ++t) {
      Choose(biases, t, t, 0.0, chosen);
      for (const size_t e : chosen) counts[e] += 1.0;
    }
    for (double& count : counts) count /= static_cast<double>(num_tokens_);
    return counts;
  }

  double Locality(const std::vector<double>& biases, double correlation) {
    std::vector<size_t> before, after;
    size_t num_common = 0;
    for (size_t t = 0; t < num_tokens_; ++t) {
      // The next token's own part is another's numbers: they are independent.
      const size_t other = (t + 1) % num_tokens_;
      Choose(biases, t, t, 0.0, before);
      Choose(biases, other, t, correlation, after);
      for (const size_t e : after) {
        num_common += std::ranges::count(before, e) > 0 ? 1 : 0;
      }
    }
    return static_cast<double>(num_common) /
           static_cast<double>(num_tokens_ * num_used_);
  }

 private:
  // The choice of a token that has `correlation` of the numbers of `like`, and
  // the rest of `own`.
  void Choose(const std::vector<double>& biases, size_t own, size_t like,
              double correlation, std::vector<size_t>& chosen) {
    const double rest = std::sqrt(1.0 - correlation * correlation);
    for (size_t e = 0; e < num_experts_; ++e) {
      logits_[e] = biases[e] + rest * draws_[own * num_experts_ + e] +
                   correlation * draws_[like * num_experts_ + e];
    }
    chosen.resize(num_experts_);
    std::iota(chosen.begin(), chosen.end(), size_t{0});
    std::ranges::nth_element(
        chosen, chosen.begin() + static_cast<std::ptrdiff_t>(num_used_),
        [&](size_t a, size_t b) {
          return logits_[a] != logits_[b] ? logits_[a] > logits_[b] : a < b;
        });
    chosen.resize(num_used_);
  }

  size_t num_experts_;
  size_t num_used_;
  size_t num_tokens_;
  std::vector<double> draws_;   // [num_tokens, E]
  std::vector<double> logits_;  // of the token that chooses
};

// A share as a threshold, where the normal distribution is not too flat.
double ThresholdOf(double share) {
  return NormalThreshold(std::clamp(share, 1e-5, 1.0 - 1e-5));
}

}  // namespace

Result<std::vector<double>> SolveExpertBiases(size_t num_experts,
                                              size_t num_used, double skew) {
  const double density =
      static_cast<double>(num_used) / static_cast<double>(num_experts);
  auto shares = SolveShares(num_experts, density, skew);
  if (!shares) return Annotate("experts", shares.error());
  Choices choices(num_experts, num_used);
  std::vector<double> biases(num_experts);
  for (int step = 0; step < kFitSteps; ++step) {
    const std::vector<double> got = choices.Shares(biases);
    for (size_t e = 0; e < num_experts; ++e) {
      biases[e] += ThresholdOf(got[e]) - ThresholdOf((*shares)[e]);
    }
  }
  return biases;
}

std::vector<double> ExpertShares(const std::vector<double>& biases,
                                 size_t num_used) {
  return Choices(biases.size(), num_used).Shares(biases);
}

double ExpertLocality(const std::vector<double>& biases, size_t num_used,
                      double correlation) {
  return Choices(biases.size(), num_used).Locality(biases, correlation);
}

Result<double> SolveExpertCorrelation(const std::vector<double>& biases,
                                      size_t num_used, double locality) {
  Choices choices(biases.size(), num_used);
  double low = 0.0;
  double high = kMaxCorrelation;
  const double least = choices.Locality(biases, low);
  const double most = choices.Locality(biases, high);
  if (!(locality >= least && locality <= most)) {
    return Fail(ErrorCode::kInvalidArgument,
                "experts: a locality of {} is not possible with {} of {} in "
                "use and this skew; {:.3f} to {:.3f} is: tokens that have "
                "nothing in common share the busy experts",
                locality, num_used, biases.size(), std::ceil(least * 1e3) / 1e3,
                std::floor(most * 1e3) / 1e3);
  }
  for (int i = 0; i < kBisections; ++i) {
    const double middle = 0.5 * (low + high);
    (choices.Locality(biases, middle) < locality ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

}  // namespace thermocline::synth
