// Thresholds for SiLU and GELU by what they cost: how much worse a text is
// predicted when gates below them are taken for shut.
#ifndef THERMOCLINE_TRAINING_THRESHOLD_SEARCH_H_
#define THERMOCLINE_TRAINING_THRESHOLD_SEARCH_H_

#include <functional>
#include <memory>
#include <vector>

#include "base/progress.h"
#include "base/status.h"
#include "engine/session.h"
#include "model/model.h"
#include "training/corpus.h"

namespace thermocline::training {

// The perplexity of the chunks of the corpus that are held out, `max_chunks` of
// them at most, of the model as it was opened: with its thresholds replaced by
// `thresholds` [L] and computed in the threshold mode; without thresholds,
// densely. Every position but the first half of a chunk counts. Infinite where
// that does not fit a double.
// kInvalidArgument: chunks of fewer than 4 tokens; the session's errors.
// Memory: a session's, and the logits of 64 positions.
Result<double> MeasurePerplexity(
    const std::shared_ptr<const model::Model>& model, const Corpus& corpus,
    size_t max_chunks, const engine::SessionOptions& options,
    const std::vector<float>& thresholds);

struct DensityChoice {
  double density = 1.0;
  double perplexity = 0;
  double dense_perplexity = 0;
  bool operator==(const DensityChoice&) const = default;
};

// The least density, to 1/128, at which `perplexity_at` is no more than
// (1 + max_cost) * dense; 1 if none is. Asks for 7 densities, by halving.
Result<DensityChoice> FindDensity(
    double max_cost, double dense_perplexity,
    const std::function<Result<double>(double density)>& perplexity_at);

}  // namespace thermocline::training

#endif  // THERMOCLINE_TRAINING_THRESHOLD_SEARCH_H_
