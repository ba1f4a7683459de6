// Everything that `train` and `prepare` find out about a model from a text:
// profile, thresholds or predictors, self-test. Finished stages and layers are
// kept in a work folder, from which an interrupted run goes on.
#ifndef THERMOCLINE_TRAINING_FIND_PARTS_H_
#define THERMOCLINE_TRAINING_FIND_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/status.h"
#include "convert/pack_parts.h"
#include "engine/session.h"
#include "model/model.h"
#include "neuron/profile.h"
#include "tensor/dtype.h"
#include "training/accuracy.h"
#include "training/corpus.h"
#include "training/work_folder.h"

namespace thermocline::training {

inline constexpr size_t kMaxAhead =
    3;  // layers, for FindOptions::reports_ahead

struct FindOptions {
  std::string corpus_name;
  engine::SessionOptions session;  // threads, ISA, cancel flag
  RecallGoal goal;
  int64_t lookahead = 0;  // 0 or 1: whose input trained predictors read
  uint64_t seed = 0;
  size_t num_steps = 800;
  size_t max_samples = size_t{1} << 16;
  bool predictors = true;
  bool free_predictors = true;
  // Whether to measure what looking 1 to kMaxAhead layers ahead costs: trains a
  // fourth as many steps as a predictor takes, for each of them.
  bool reports_ahead = false;
  // For SiLU and GELU, one of the two: the share of the gates to keep, or the
  // perplexity that may be lost, as a share.
  std::optional<double> density;
  std::optional<double> max_ppl_cost;
  uint64_t max_memory_bytes = 0;  // 0: a fourth of the model and 1 GiB
  ProgressFn progress;
};

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
  double locality = 0;
  uint64_t ffn_bytes = 0;
  PredictorFindings trained;
  std::string reason;  // why there is no trained one
  // Of the training-free one; its rank is the margin's. num_bytes 0: none.
  PredictorFindings free;
  double free_sign_candidates_per_fired = 0;  // after the signs alone
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
  convert::PreparedParts parts;
  neuron::Profile profile;
  std::vector<LayerFindings> layers;
  std::vector<Stage> stages;  // of this run; none for what was kept
  size_t num_layers_kept = 0;
  std::optional<double> threshold_density;
  // Held-out perplexity, where thresholds were chosen by their cost.
  std::optional<double> dense_perplexity, threshold_perplexity;
};

// What the work folder of such a run is for: every line names something that
// the results depend on.
std::string DescribeWork(const model::Model& model, const Corpus& corpus,
                         const FindOptions& options);

// kUnsupported: the model fires nearly all its neurons and no thresholds are
// asked for; kInvalidArgument: thresholds for the ReLU family, two ways to
// choose them, a lookahead that is neither 0 nor 1; kResourceExhausted: one
// layer's samples do not fit the memory; kCancelled, after which the work
// folder has what was finished; damage in it is kCorrupt, named. Errors of
// Session and LoadBlas.
// The same model, text, options and machine give the same parts, whatever the
// number of threads, and whether or not the run was interrupted.
// Memory: anonymous, options.max_memory_bytes.
Result<Findings> FindParts(const std::shared_ptr<const model::Model>& model,
                           const Corpus& corpus, const FindOptions& options,
                           const WorkFolder& work);

}  // namespace thermocline::training

#endif  // THERMOCLINE_TRAINING_FIND_PARTS_H_
