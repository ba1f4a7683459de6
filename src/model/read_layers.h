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
// by layer are checked layer by layer. kCorrupt: missing, out of range, or in
// contradiction to each other; kUnsupported: a rope scaling or experts that do
// not run, and layers that differ, which the engine does not take in this
// version; the key and two such layers are named.
Status ReadLayers(const KeyReader& keys, const Architecture& architecture,
                  Config& config);

}  // namespace thermocline::model

#endif  // THERMOCLINE_MODEL_READ_LAYERS_H_
