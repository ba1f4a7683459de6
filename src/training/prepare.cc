#include "training/prepare.h"

#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/remedy.h"
#include "engine/ffn/ffn_choice.h"
#include "pack/part_file.h"
#include "training/find_parts.h"
#include "training/work_folder.h"

namespace thermocline::training {
namespace {

using gguf::KeyValue;
using gguf::ValueType;

KeyValue Floats(const char* key, const std::vector<LayerFindings>& layers,
                double PredictorFindings::* figure) {
  std::vector<double> values;
  for (const LayerFindings& layer : layers) {
    values.push_back(layer.trained.*figure);
  }
  return {.key = key,
          .type = ValueType::kArray,
          .value = gguf::Array{.elem_type = ValueType::kF32,
                               .values = std::move(values)}};
}

// Where the predictors come from and how good they were.
void AddKeys(const Corpus& corpus, const FindOptions& options,
             Findings& findings) {
  std::vector<KeyValue>& keys = findings.parts.keys;
  keys.push_back({.key = "thermocline.training.corpus",
                  .type = ValueType::kString,
                  .value = options.corpus_name});
  keys.push_back({.key = "thermocline.training.tokens",
                  .type = ValueType::kU64,
                  .value = static_cast<int64_t>(corpus.num_tokens())});
  keys.push_back({.key = "thermocline.training.seed",
                  .type = ValueType::kU64,
                  .value = static_cast<int64_t>(options.seed)});
  if (findings.parts.predictors.empty()) return;
  keys.push_back({.key = "thermocline.training.recall_target",
                  .type = ValueType::kF32,
                  .value = options.goal.recall});
  keys.push_back(Floats("thermocline.training.recall", findings.layers,
                        &PredictorFindings::recall));
  keys.push_back(Floats("thermocline.training.candidates_per_fired",
                        findings.layers,
                        &PredictorFindings::candidates_per_fired));
}

// Whether there is anything to train.
Status CheckTrainable(const model::Model& model) {
  const model::FfnSpec& ffn = CommonFfn(model.config());
  if (!HasZeros(ffn.activation)) {
    return Fail(ErrorCode::kUnsupported, Advice{Remedy::kCalibrate},
                "{}: its activation is {}, which is nowhere 0: every neuron "
                "fires, and nothing is there to predict",
                model.file().path(), NameOf(ffn.activation));
  }
  return {};
}

struct Found {
  WorkFolder work;
  Prepared prepared;
};

Result<Found> Find(const std::shared_ptr<const model::Model>& model,
                   const Corpus& corpus, const FindOptions& options,
                   const std::string& output, std::string description) {
  TC_ASSIGN_OR_RETURN(
      WorkFolder work,
      WorkFolder::Open(WorkFolder::PathFor(output),
                       description + DescribeWork(*model, corpus, options)));
  Result<Findings> found = FindParts(model, corpus, options, work);
  if (!found) {
    // A refusal leaves nothing that other options would be refused for.
    if (found.error().code != ErrorCode::kCancelled && work.IsEmpty()) {
      TC_RETURN_IF_ERROR(work.Remove());
    }
    return tl::unexpected(found.error());
  }
  Findings& findings = *found;
  AddKeys(corpus, options, findings);
  const bool is_resumed = work.is_resumed();
  return Found{.work = std::move(work),
               .prepared = {.findings = std::move(findings),
                            .packed = std::nullopt,
                            .is_resumed = is_resumed}};
}

}  // namespace

Result<Prepared> TrainTo(const std::shared_ptr<const model::Model>& model,
                         const Corpus& corpus, const FindOptions& options,
                         const std::string& output) {
  TC_RETURN_IF_ERROR(CheckTrainable(*model));
  TC_ASSIGN_OR_RETURN(Found found,
                      Find(model, corpus, options, output, "train\n"));
  TC_RETURN_IF_ERROR(
      pack::WriteParts(found.prepared.findings.parts, model->config(), output));
  TC_RETURN_IF_ERROR(found.work.Remove());
  return std::move(found.prepared);
}

Result<Prepared> PrepareTo(const std::shared_ptr<const model::Model>& model,
                           const Corpus& corpus, const FindOptions& options,
                           const pack::PackOptions& pack,
                           const std::string& output) {
  TC_RETURN_IF_ERROR(pack::PlanRecords(*model, {}, pack));
  TC_ASSIGN_OR_RETURN(Found found,
                      Find(model, corpus, options, output, "prepare\n"));
  const Stopwatch watch;
  TC_ASSIGN_OR_RETURN(
      found.prepared.packed,
      pack::Pack(*model, found.prepared.findings.parts, output, pack));
  found.prepared.findings.stages.push_back({"records", watch.Seconds()});
  TC_RETURN_IF_ERROR(found.work.Remove());
  return std::move(found.prepared);
}

}  // namespace thermocline::training
