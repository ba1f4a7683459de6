// Keys that ask for computations that this engine does not do.
#ifndef THERMOCLINE_MODEL_REFUSED_KEYS_H_
#define THERMOCLINE_MODEL_REFUSED_KEYS_H_

#include "base/status.h"
#include "model/config.h"
#include "model/key_reader.h"

namespace thermocline::model {

// kUnsupported, naming the key, when one is set to a value that would change
// the result: better no answer than a wrong one. `config` has the extents,
// the head widths and the form of the block.
Status CheckNoRefusedKeys(const KeyReader& keys, const Config& config);

}  // namespace thermocline::model

#endif  // THERMOCLINE_MODEL_REFUSED_KEYS_H_
