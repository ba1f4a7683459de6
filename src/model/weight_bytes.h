// How many bytes of weights a pass reads.
#ifndef THERMOCLINE_MODEL_WEIGHT_BYTES_H_
#define THERMOCLINE_MODEL_WEIGHT_BYTES_H_

#include <cstdint>

#include "model/layer_spec.h"
#include "model/model.h"

namespace thermocline::model {

// All but the matrices of FFNs and predictors, for a batch of num_tokens; of
// embeddings a row per token.
uint64_t FixedWeightBytes(const Weights& weights, uint64_t num_tokens);

// The matrices of a layer's FFN if every neuron is computed; of experts those
// that num_tokens tokens can choose.
uint64_t FfnMatrixBytes(const FfnSpec& spec, const FfnWeights& weights,
                        uint64_t num_tokens);

// What is moved at once between tiers of memory: an expert of a mixture, else a
// neuron. A neuron takes its record, with the padding behind it, and what of it
// lies in matrices; without records its rows and column of the matrices.
uint64_t UnitBytes(const Config& config, const Weights& weights,
                   size_t layer_idx);

// The trained predictor's.
uint64_t PredictorBytes(const LayerWeights& layer);

// The training-free predictor's.
uint64_t TrainingFreeBytes(const LayerWeights& layer);

}  // namespace thermocline::model

#endif  // THERMOCLINE_MODEL_WEIGHT_BYTES_H_
