// OPT: learned positions, LayerNorm, biases, ReLU without a gate.
#ifndef THERMOCLINE_CONVERT_HF_OPT_H_
#define THERMOCLINE_CONVERT_HF_OPT_H_

#include "base/status.h"
#include "convert/hf_config.h"
#include "convert/json.h"
#include "convert/tensor_layout.h"

namespace thermocline::convert {

// Fills in sizes, activation and epsilon. kCorrupt; kUnsupported: norms behind
// the blocks, projected embeddings, missing biases, by their keys.
Status ReadOptConfig(const JsonFields& fields, HfConfig& config);

// The position table's first two rows, which no position uses, are left out.
Layout OptLayout(const HfConfig& config);

}  // namespace thermocline::convert

#endif  // THERMOCLINE_CONVERT_HF_OPT_H_
