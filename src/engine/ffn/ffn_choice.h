// What --ffn and --predictor mean for a model.
#ifndef THERMOCLINE_ENGINE_FFN_FFN_CHOICE_H_
#define THERMOCLINE_ENGINE_FFN_FFN_CHOICE_H_

#include "base/status.h"
#include "engine/ffn/ffn_mode.h"
#include "model/config.h"

namespace thermocline::engine {

struct FfnChoice {
  FfnMode mode = FfnMode::kDense;                      // not kAuto
  PredictorChoice predictor = PredictorChoice::kNone;  // kFast: trained or free
  bool own_signs = false;  // kTrainingFree, and the file has no signs
};

// kInvalidArgument, with what to do instead: fast without predictors; exact
// where the activation is nowhere zero, threshold where it is or where the file
// has none; a predictor for a mode that takes none.
Result<FfnChoice> ChooseFfn(const model::Config& config, FfnMode mode,
                            PredictorChoice predictor);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_FFN_CHOICE_H_
