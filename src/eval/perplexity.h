// Perplexity over a text, counted as llama.cpp counts it.
#ifndef THERMOCLINE_EVAL_PERPLEXITY_H_
#define THERMOCLINE_EVAL_PERPLEXITY_H_

#include <cstdint>
#include <span>
#include <string>

#include "base/progress.h"
#include "base/status.h"
#include "engine/session.h"

namespace thermocline::eval {

struct Perplexity {
  double value;  // exp(mean negative log-likelihood)
  double error;  // standard error of `value`
  double mean_nll;
  int64_t context;  // tokens per chunk
  int64_t num_chunks;
  int64_t num_predictions;
};

// Cuts `tokens` into chunks of `context`, drops the rest; each chunk starts
// with an empty KV cache, and its first token is replaced by BOS if the
// vocabulary adds one. Counts the predictions made at positions context/2 to
// context - 2. Every position runs in the session's mode. Leaves the session
// empty. kInvalidArgument: fewer tokens than two chunks (as llama.cpp), context
// < 4, or more than the session's; cancel gives kCancelled.
Result<Perplexity> MeasurePerplexity(engine::Session& session,
                                     std::span<const text::TokenId> tokens,
                                     int64_t context,
                                     const ProgressFn& progress);

// -ln softmax(logits)[target], in double. Requires target < logits.size().
double NegativeLogLikelihood(std::span<const float> logits, size_t target);

// One line for people; one JSON object with the fields' names.
std::string FormatPerplexity(const Perplexity& perplexity);
std::string FormatPerplexityJson(const Perplexity& perplexity);

}  // namespace thermocline::eval

#endif  // THERMOCLINE_EVAL_PERPLEXITY_H_
