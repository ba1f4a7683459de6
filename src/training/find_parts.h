// Everything that `train` and `prepare` find out about a model from a text:
// profile, thresholds or predictors, self-test. Finished stages and layers are
// kept in a work folder, from which an interrupted run goes on.
#ifndef THERMOCLINE_TRAINING_FIND_PARTS_H_
#define THERMOCLINE_TRAINING_FIND_PARTS_H_

#include <memory>

#include "base/status.h"
#include "model/model.h"
#include "training/corpus.h"
#include "training/find_options.h"
#include "training/findings.h"
#include "training/work_folder.h"

namespace thermocline::training {

// Errors of CheckOptions, LoadBlas, ReserveSpace, ThreadPool::Create, PlanFit,
// ScanCorpus, RunCorpus, FitLayer and WorkFolder::FileToWrite; kIo. After
// kCancelled the work folder has what was finished. Damage in it is named.
// The same model, text, options and machine give the same parts,
// whatever the number of threads, and whether or not the run was interrupted.
// Memory: anonymous, options.max_memory_bytes; of the predictors only those of
// one layer, until all are there and go into one file.
Result<Findings> FindParts(const std::shared_ptr<const model::Model>& model,
                           const Corpus& corpus, const FindOptions& options,
                           const WorkFolder& work);

}  // namespace thermocline::training

#endif  // THERMOCLINE_TRAINING_FIND_PARTS_H_
