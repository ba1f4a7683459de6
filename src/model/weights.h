// Binds a file's tensors to their roles in the forward pass.
#ifndef THERMOCLINE_MODEL_WEIGHTS_H_
#define THERMOCLINE_MODEL_WEIGHTS_H_

#include <span>

#include "base/progress.h"
#include "base/status.h"
#include "gguf/gguf.h"
#include "model/config.h"
#include "model/model.h"

namespace thermocline::model {

// Every view points into the file, which must outlive them. kCorrupt: a missing
// tensor, a wrong shape, RoPE factors that are zero or not finite.
// kUnsupported: a type without kernels, a vector that is not F32, a tensor that
// no role asks for. Messages name file and tensor.
Result<Weights> BindWeights(const gguf::File& file, const Config& config);

// Reads every tensor of the file that has a computable type, and the FFNs of
// `layers`, bound to the file, that lie in records. kCorrupt names the first
// with NaN or infinity, the part of a record, and the element.
Status CheckTensors(const gguf::File& file,
                    std::span<const LayerWeights> layers,
                    const ProgressFn& progress);

}  // namespace thermocline::model

#endif  // THERMOCLINE_MODEL_WEIGHTS_H_
