// What the tensors of a prepared file are, bound.
#ifndef THERMOCLINE_MODEL_PREPARED_WEIGHTS_H_
#define THERMOCLINE_MODEL_PREPARED_WEIGHTS_H_

#include <cstdint>
#include <span>

#include "base/status.h"
#include "gguf/gguf.h"
#include "model/config.h"
#include "model/model.h"
#include "model/tensor_binder.h"

namespace thermocline::model {

// Gate, up and transposed down of a layer, or of each of its experts
// (ffn.experts has its size), as views into records. Requires config.records.
// Errors as the binder's.
Status BindRecords(TensorBinder& binder, const Config& config, size_t layer_idx,
                   FfnWeights& ffn);

// The training-free predictor, the self-test, the counts and the order of a
// layer; nothing of a plain file. Besides the binder's errors kCorrupt: parts
// that contradict each other, values out of range. kUnsupported: sign words
// that do not lie at multiples of 8 bytes.
Status BindPrepared(TensorBinder& binder, const Config& config,
                    size_t layer_idx, LayerWeights& layer);

// kCorrupt: the layers' samples are not of the same number.
Status CheckSampleCounts(const gguf::File& file,
                         std::span<const LayerWeights> layers);

// kCorrupt: some layers say what numbers their neurons had, and some do not.
Status CheckSourceNeurons(const gguf::File& file,
                          std::span<const LayerWeights> layers);

}  // namespace thermocline::model

#endif  // THERMOCLINE_MODEL_PREPARED_WEIGHTS_H_
