// `thermocline train` and `thermocline prepare` as a whole: a model and a text
// in, one file out.
#ifndef THERMOCLINE_TRAINING_PREPARE_H_
#define THERMOCLINE_TRAINING_PREPARE_H_

#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "model/model.h"
#include "pack/pack.h"
#include "training/corpus.h"
#include "training/find_options.h"
#include "training/findings.h"

namespace thermocline::training {

struct Prepared {
  Findings findings;
  std::optional<pack::PackSummary> packed;  // by Prepare
  bool is_resumed = false;
};

// Finds a model's parts and writes them alone to `output`, for Prepare of this
// model or another quantisation of it. Works in WorkFolder::PathFor(output),
// which is gone afterwards, and kept on an error if a stage is finished, or if
// it was an interrupt. kUnsupported: SiLU and GELU, for which there are no
// predictors; what to do instead is told. FindParts's, WorkFolder's and
// WriteParts's errors.
Result<Prepared> TrainTo(const std::shared_ptr<const model::Model>& model,
                         const Corpus& corpus, const FindOptions& options,
                         const std::string& output);

// Finds a model's parts and packs them with its weights. That the weights can
// be bundled is asked first. Also Pack's errors.
Result<Prepared> PrepareTo(const std::shared_ptr<const model::Model>& model,
                           const Corpus& corpus, const FindOptions& options,
                           const pack::PackOptions& pack,
                           const std::string& output);

}  // namespace thermocline::training

#endif  // THERMOCLINE_TRAINING_PREPARE_H_
