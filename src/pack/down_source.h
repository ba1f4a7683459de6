// Whether another file is the same model, for its down columns.
#ifndef THERMOCLINE_PACK_DOWN_SOURCE_H_
#define THERMOCLINE_PACK_DOWN_SOURCE_H_

#include "base/status.h"
#include "model/model.h"

namespace thermocline::pack {

// kInvalidArgument, naming both files: `better` is no other type of `source`,
// by sizes, norms, and a sample of the down matrix of each layer, which the
// message has. Cost: reads 32 rows of each down matrix.
Status CheckDownSource(const model::Model& source, const model::Model& better);

}  // namespace thermocline::pack

#endif  // THERMOCLINE_PACK_DOWN_SOURCE_H_
