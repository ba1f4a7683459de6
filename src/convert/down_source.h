// Whether another file is the same model, for its down columns.
#ifndef THERMOCLINE_CONVERT_DOWN_SOURCE_H_
#define THERMOCLINE_CONVERT_DOWN_SOURCE_H_

#include "base/status.h"
#include "model/model.h"

namespace thermocline::convert {

// Down columns that differ by more than this, as RMS of the difference over
// that of the better ones, are another model's: types of one model differ by a
// tenth or so, weights that have nothing to do with each other by 1.4.
inline constexpr double kMostDownDifference = 0.5;

// kInvalidArgument, naming both files: `better` is no other type of `source`,
// by sizes, norms, and a sample of the down matrix of each layer, which the
// message has. Cost: reads 32 rows of each down matrix.
Status CheckDownSource(const model::Model& source, const model::Model& better);

}  // namespace thermocline::convert

#endif  // THERMOCLINE_CONVERT_DOWN_SOURCE_H_
