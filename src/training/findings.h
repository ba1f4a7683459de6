// What `train` and `prepare` found out about a model.
#ifndef THERMOCLINE_TRAINING_FINDINGS_H_
#define THERMOCLINE_TRAINING_FINDINGS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "neuron/profile.h"
#include "pack/parts.h"
#include "tensor/dtype.h"

namespace thermocline::training {

// Layers that LayerFindings::recall_ahead looks ahead at most.
inline constexpr size_t kMaxAhead = 3;

// Of a predictor; accuracy over held-out samples. rank 0: there is none.
struct PredictorFindings {
  size_t rank = 0;
  std::optional<DType> dtype;
  uint64_t num_bytes = 0;
  double recall = 0;
  double precision = 0;
  double candidates_per_fired = 0;

  bool operator==(const PredictorFindings&) const = default;
};

struct LayerFindings {
  double density = 0;
  double skew = 0;
  std::optional<double> locality;  // as of neuron::LayerProfile
  uint64_t ffn_bytes = 0;
  // Neurons of a group that fire where one of them does, over held-out
  // samples: in groups of the order that was found, and of neighbours as they
  // lie. 0: not measured.
  double fired_per_group = 0;
  double fired_per_group_as_they_lie = 0;
  PredictorFindings trained;
  std::string reason;  // why there is no trained one
  // Of the training-free one; its rank is the margin's. num_bytes 0: none.
  PredictorFindings free;
  // After the signs alone; 0: nothing fired in held-out text.
  double free_sign_candidates_per_fired = 0;
  // Recall with the input of the layer itself and of 1, 2, 3 before it, by
  // predictors alike, with as many candidates. Empty: not asked for; fewer
  // where there is no such layer.
  std::vector<double> recall_ahead;

  bool operator==(const LayerFindings&) const = default;
};

struct Stage {
  std::string name;
  double seconds = 0;
};

struct Findings {
  bool is_mixture = false;  // densities are of the experts that a token uses
  pack::PreparedParts parts;
  neuron::Profile profile;
  std::vector<LayerFindings> layers;
  std::vector<Stage> stages;  // of this run; none for what was kept
  size_t num_layers_kept = 0;
  // Why no layer's predictors were looked for, though they were asked for.
  std::string no_predictors;
  std::optional<double> threshold_density;
  // Held-out perplexity, where thresholds were chosen by their cost.
  std::optional<double> dense_perplexity, threshold_perplexity;
};

}  // namespace thermocline::training

#endif  // THERMOCLINE_TRAINING_FINDINGS_H_
