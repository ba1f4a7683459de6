// What `train` and `prepare` are asked to find out about a model.
#ifndef THERMOCLINE_TRAINING_FIND_OPTIONS_H_
#define THERMOCLINE_TRAINING_FIND_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/progress.h"
#include "base/status.h"
#include "engine/session.h"
#include "model/model.h"
#include "planner/neuron_groups.h"
#include "training/accuracy.h"
#include "training/corpus.h"

namespace thermocline::training {

struct FindOptions {
  std::string corpus_name;
  engine::SessionOptions session;  // threads, ISA, cancel flag
  RecallGoal goal;
  int64_t lookahead = 0;  // 0 or 1: whose input trained predictors read
  // How the order of the neurons is found.
  planner::Grouping grouping = planner::Grouping::kGreedy;
  uint64_t seed = 0;
  size_t num_steps = 800;
  size_t max_samples = size_t{1} << 16;
  bool predictors = true;
  bool training_free = true;
  // Whether to measure what looking 1 to kMaxAhead layers ahead costs: trains a
  // fourth as many steps as a predictor takes, for each of them.
  bool reports_ahead = false;
  // For SiLU and GELU, one of the two: the share of the gates to keep, or the
  // perplexity that may be lost, as a share.
  std::optional<double> density;
  std::optional<double> max_ppl_cost;
  uint64_t max_memory_bytes = 0;  // 0: a fourth of the model and 1 GiB
  ProgressFn progress;

  bool wants_thresholds() const {
    return density.has_value() || max_ppl_cost.has_value();
  }
  bool wants_predictors() const { return predictors || training_free; }
  // Layers before its own whose inputs a layer's predictors are fitted with.
  size_t num_layers_before() const;
};

// kInvalidArgument: thresholds for the ReLU family, two ways to choose them, a
// lookahead that is neither 0 nor 1; kUnsupported: a lookahead for a mixture,
// layers whose numbers of neurons differ.
Status CheckOptions(const model::Model& model, const FindOptions& options);

// What the work folder of such a run is for: every line names something that
// the results depend on, models by their norms, by a hash of all weights, and
// by what their keys say of how they are computed.
// Cost: reads the model once.
std::string DescribeWork(const model::Model& model, const Corpus& corpus,
                         const FindOptions& options);

}  // namespace thermocline::training

#endif  // THERMOCLINE_TRAINING_FIND_OPTIONS_H_
