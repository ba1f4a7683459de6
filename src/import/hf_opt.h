// OPT: learned positions, LayerNorm, biases, ReLU without a gate.
#ifndef THERMOCLINE_IMPORT_HF_OPT_H_
#define THERMOCLINE_IMPORT_HF_OPT_H_

#include "base/status.h"
#include "import/hf_config.h"
#include "import/json.h"
#include "import/tensor_layout.h"

namespace thermocline::importer {

// Fills in sizes, activation and epsilon. kCorrupt; kUnsupported: norms behind
// the blocks, projected embeddings, missing biases, by their keys.
Status ReadOptConfig(const JsonFields& fields, HfConfig& config);

// The position table's first two rows, which no position uses, are left out.
Layout OptLayout(const HfConfig& config);

}  // namespace thermocline::importer

#endif  // THERMOCLINE_IMPORT_HF_OPT_H_
