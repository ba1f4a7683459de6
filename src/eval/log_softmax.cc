#include "eval/log_softmax.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace thermocline::eval {

Result<double> LogSumExp(std::span<const float> logits) {
  TC_CHECK(!logits.empty());
  const auto bad = std::ranges::find_if(
      logits, [](float logit) { return !std::isfinite(logit); });
  if (bad != logits.end()) {
    return Fail(ErrorCode::kCorrupt, "the logit of token {} is {}",
                bad - logits.begin(), *bad);
  }
  const double max = *std::ranges::max_element(logits);
  double sum = 0.0;
  for (const float logit : logits) {
    sum += std::exp(static_cast<double>(logit) - max);
  }
  return max + std::log(sum);
}

Result<double> LogProbability(std::span<const float> logits, size_t token) {
  TC_CHECK(token < logits.size());
  TC_ASSIGN_OR_RETURN(const double log_sum, LogSumExp(logits));
  return static_cast<double>(logits[token]) - log_sum;
}

}  // namespace thermocline::eval
