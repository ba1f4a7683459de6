// From logits to log-probabilities, in double.
#ifndef THERMOCLINE_EVAL_LOG_SOFTMAX_H_
#define THERMOCLINE_EVAL_LOG_SOFTMAX_H_

#include <cstddef>
#include <span>

#include "base/status.h"

namespace thermocline::eval {

// ln of the sum of exp(logit): what is to be subtracted from a logit to make it
// a log-probability. Requires logits (CHECKed). kCorrupt: one of them is not
// finite; its index and value are named.
Result<double> LogSumExp(std::span<const float> logits);

// ln softmax(logits)[token]. Requires token < logits.size() (CHECKed). Same
// error.
Result<double> LogProbability(std::span<const float> logits, size_t token);

}  // namespace thermocline::eval

#endif  // THERMOCLINE_EVAL_LOG_SOFTMAX_H_
