// Perplexity over a text, counted as llama.cpp counts it.
#ifndef THERMOCLINE_EVAL_PERPLEXITY_H_
#define THERMOCLINE_EVAL_PERPLEXITY_H_

#include <cstdint>
#include <span>

#include "base/progress.h"
#include "base/status.h"
#include "engine/session.h"

namespace thermocline::eval {

struct Perplexity {
  double value;  // exp(mean negative log-likelihood)
  double error;  // standard error of `value`
  double mean_nll;
  int64_t num_chunks;
  int64_t num_predictions;
};

// Cuts `tokens` into chunks of `context`, drops the rest; each chunk starts
// with an empty KV cache, and its first token is replaced by BOS if the
// vocabulary adds one. Counts the predictions made at positions context/2 to
// context - 2. Every position runs in the session's mode. Requires a session
// with at least `context` positions. kInvalidArgument: fewer tokens than two
// chunks (as llama.cpp) or context < 4; cancel gives kCancelled.
Result<Perplexity> MeasurePerplexity(engine::Session& session,
                                     std::span<const text::TokenId> tokens,
                                     int64_t context,
                                     const ProgressFn& progress);

}  // namespace thermocline::eval

#endif  // THERMOCLINE_EVAL_PERPLEXITY_H_
