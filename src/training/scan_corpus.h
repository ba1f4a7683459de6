// The first stage of `train` and `prepare`: one run over the corpus for what
// concerns all layers, into the work folder.
#ifndef THERMOCLINE_TRAINING_SCAN_CORPUS_H_
#define THERMOCLINE_TRAINING_SCAN_CORPUS_H_

#include <memory>
#include <vector>

#include "base/status.h"
#include "model/model.h"
#include "model/profile_file.h"
#include "training/corpus.h"
#include "training/find_options.h"
#include "training/findings.h"
#include "training/sample_store.h"
#include "training/scan_file.h"
#include "training/work_folder.h"

namespace thermocline::training {

// Whether ScanCorpus has been here, now or in an earlier run.
bool IsScanned(const WorkFolder& work);

// Writes the profile, samples for a self-test and the thresholds that are asked
// for. The samples of the corpus go to `store` too, unless it is null. What it
// took is added to `stages`. options.session.ffn is kDense.
// CheckSparsity's error, after the first chunk already, unless thresholds are
// asked for: of a mixture's neurons those of the experts that a token uses
// count; kUnsupported: a perplexity that is not finite, where thresholds are
// chosen by it. Errors of RunCorpus and MeasurePerplexity; kIo.
// Memory: of a session, of the profile, 256 KiB a layer.
Status ScanCorpus(const std::shared_ptr<const model::Model>& model,
                  const Corpus& corpus, const FindOptions& options,
                  const WorkFolder& work, SampleStore* store,
                  std::vector<Stage>& stages);

struct Scanned {
  model::ProfileFile profile;
  ScanFile scan;
};
// What ScanCorpus left. Damage names the file and says what to do.
Result<Scanned> ReadScanned(const model::Model& model, const WorkFolder& work);

}  // namespace thermocline::training

#endif  // THERMOCLINE_TRAINING_SCAN_CORPUS_H_
