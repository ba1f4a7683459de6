// Everything that is found out about one layer from its samples: an order of
// its neurons, predictors, and how good they are.
#ifndef THERMOCLINE_TRAINING_LAYER_FIT_H_
#define THERMOCLINE_TRAINING_LAYER_FIT_H_

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "model/model.h"
#include "neuron/profile.h"
#include "training/find_options.h"
#include "training/gemm.h"
#include "training/layer_file.h"
#include "training/sample_store.h"

namespace thermocline::training {

// Bytes of the matrices of a layer's FFN, or of one of its experts.
uint64_t FfnBytes(const model::FfnWeights& ffn);

// Fits what `options` ask for to layer `layer_idx`; the store has its samples,
// and those of the layers before it whose inputs are read (as far as there are
// any). `profile` is the layer's. The same arguments and machine give the same
// bits. kCancelled. Cost: a training for a predictor, and a fourth of one for
// each lookahead that is reported.
Result<LayerFile> FitLayer(const Gemm& gemm, const model::Model& model,
                           const SampleStore& store,
                           const neuron::LayerProfile& profile,
                           size_t layer_idx, const FindOptions& options);

}  // namespace thermocline::training

#endif  // THERMOCLINE_TRAINING_LAYER_FIT_H_
