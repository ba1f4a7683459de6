// Reads what each layer is from the keys of a file.
#ifndef THERMOCLINE_MODEL_READ_LAYERS_H_
#define THERMOCLINE_MODEL_READ_LAYERS_H_

#include "base/status.h"
#include "model/architectures.h"
#include "model/config.h"
#include "model/key_reader.h"

namespace thermocline::model {

// Fills config.layers but for activations, and config.ropes. Requires
// config.num_layers, width and context_length. Numbers that a file gives layer
// by layer (heads, those of keys and values, widths of FFNs) are checked layer
// by layer; the others hold for all. kCorrupt: missing, out of range, or in
// contradiction to each other; kUnsupported: a rope scaling or experts that do
// not run. Messages name the key, and the layer.
Status ReadLayers(const KeyReader& keys, const Architecture& architecture,
                  Config& config);

}  // namespace thermocline::model

#endif  // THERMOCLINE_MODEL_READ_LAYERS_H_
