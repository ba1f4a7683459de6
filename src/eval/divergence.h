// How far the predictions of one model, or one mode, are from another's. Both
// run side by side, so that nothing is rounded or stored: a file of the base's
// logits would take 2 bytes x vocabulary x predictions.
#ifndef THERMOCLINE_EVAL_DIVERGENCE_H_
#define THERMOCLINE_EVAL_DIVERGENCE_H_

#include <cstdint>
#include <span>
#include <string>

#include "base/progress.h"
#include "base/status.h"
#include "engine/session.h"
#include "eval/predictions.h"
#include "eval/statistics.h"

namespace thermocline::eval {

// Quantiles of one number per prediction.
struct Spread {
  double min, median, p90, p95, p99, p999, max;
};

// Base P, model Q. Logarithms are natural.
struct Divergence {
  int64_t chunk;  // tokens in each
  int64_t num_chunks;
  int64_t num_predictions;
  MeanWithError perplexity;       // of Q
  MeanWithError base_perplexity;  // of P
  MeanWithError log_ratio;        // ln PPL(Q) - ln PPL(P), token by token
  MeanWithError ratio;            // exp of it
  MeanWithError kl;               // KL(P || Q) = sum P (ln P - ln Q)
  Spread kl_spread;
  MeanWithError delta_p;  // Q(correct token) - P(correct token)
  double delta_p_rms;     // square root of the mean square of it
  Share same_top;         // both find the same token most likely
};

// kInvalidArgument unless token ids mean the same in both, and texts begin with
// the same BOS or both with none: sizes, the first token whose text differs, or
// what they begin with is named. Needs no vocabulary texts where neither model
// has them. Whether both cut a text into the same tokens is for the caller to
// see.
Status CheckSameVocabulary(const model::Model& model, const model::Model& base);

// Over the predictions of ForEachPrediction (BOS as `model`'s vocabulary asks),
// whose errors these are; besides, those of CheckSameVocabulary, and kCorrupt:
// logits that are not finite. A session against one that computes the same bits
// gives exactly 0 everywhere. Requires two different sessions (CHECKed).
// Cost: 8 bytes for each prediction.
Result<Divergence> MeasureDivergence(engine::Session& model,
                                     engine::Session& base,
                                     std::span<const text::TokenId> tokens,
                                     const Chunks& chunks,
                                     const ProgressFn& progress);

// Lines for people, shares in percent; one JSON object with the fields' names.
std::string FormatDivergence(const Divergence& divergence);
std::string FormatDivergenceJson(const Divergence& divergence);

}  // namespace thermocline::eval

#endif  // THERMOCLINE_EVAL_DIVERGENCE_H_
