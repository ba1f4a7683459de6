// Perplexity over a text, counted as llama.cpp counts it.
#ifndef THERMOCLINE_EVAL_PERPLEXITY_H_
#define THERMOCLINE_EVAL_PERPLEXITY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/progress.h"
#include "base/status.h"
#include "engine/session.h"
#include "eval/predictions.h"

namespace thermocline::eval {

struct Perplexity {
  double value;  // exp(mean negative log-likelihood)
  // Standard error of `value`; none of a single prediction.
  std::optional<double> error;
  double mean_nll;
  int64_t context;  // tokens per chunk
  int64_t num_chunks;
  int64_t num_predictions;
};

// From the predictions of ForEachPrediction, whose errors these are; besides,
// kCorrupt: logits that are not finite. Leaves the session empty,
// except after an error. Cancelling the session gives kCancelled.
Result<Perplexity> MeasurePerplexity(engine::Session& session,
                                     std::span<const text::TokenId> tokens,
                                     const Chunks& chunks,
                                     const ProgressFn& progress);

// One line for people; one JSON object with the fields' names.
std::string FormatPerplexity(const Perplexity& perplexity);
std::string FormatPerplexityJson(const Perplexity& perplexity);

}  // namespace thermocline::eval

#endif  // THERMOCLINE_EVAL_PERPLEXITY_H_
