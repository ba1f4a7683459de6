// The predictors that files bring, PowerInfer's, KAIROX's or ours, bound.
#ifndef THERMOCLINE_MODEL_PREDICTOR_WEIGHTS_H_
#define THERMOCLINE_MODEL_PREDICTOR_WEIGHTS_H_

#include <cstdint>

#include "base/status.h"
#include "model/config.h"
#include "model/model.h"
#include "model/tensor_binder.h"

namespace thermocline::model {

// Of one layer; empty when the file has none for it, which PowerInfer's may
// not. The rank R is the matrices' own and differs from layer to layer. Besides
// the binder's errors kCorrupt: the two matrices do not fit each other or the
// model (a predictor of another one), or the ranks in the metadata are others.
Result<PredictorWeights> BindPredictor(TensorBinder& binder,
                                       const Config& config, size_t layer_idx);

}  // namespace thermocline::model

#endif  // THERMOCLINE_MODEL_PREDICTOR_WEIGHTS_H_
