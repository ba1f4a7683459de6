// How many samples of how many layers are in memory at once while predictors
// are fitted, so that a stated amount of memory is enough.
#ifndef THERMOCLINE_TRAINING_FIT_PLAN_H_
#define THERMOCLINE_TRAINING_FIT_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "model/config.h"
#include "model/model.h"
#include "training/corpus.h"
#include "training/find_options.h"
#include "training/sample_store.h"

namespace thermocline::training {

struct FitPlan {
  size_t num_samples = 0;  // of each layer
  // Together all layers. Each group's samples are gathered in one run over the
  // corpus, with those of the layers before it that predictors read.
  std::vector<LayerRange> groups;
};

// An upper bound of what fitting one layer takes beside its samples, with
// predictors of `max_rank` at most.
uint64_t FitBytes(const model::Config& config, size_t max_rank,
                  bool looks_ahead);

// As many samples as were asked for, if one layer's fit, then as many layers.
// Memory is options.max_memory_bytes, for the session or the fitting, whichever
// takes more, the corpus and the samples. kResourceExhausted: fewer than 1024
// samples of one layer, and of those before it that its predictors read, fit;
// Session's errors. The same for every number of threads.
Result<FitPlan> PlanFit(const model::Model& model, const Corpus& corpus,
                        const FindOptions& options);

}  // namespace thermocline::training

#endif  // THERMOCLINE_TRAINING_FIT_PLAN_H_
