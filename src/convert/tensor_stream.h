// Converts one tensor's elements and passes them on piece by piece.
#ifndef THERMOCLINE_CONVERT_TENSOR_STREAM_H_
#define THERMOCLINE_CONVERT_TENSOR_STREAM_H_

#include "base/status.h"
#include "convert/tensor_plan.h"
#include "gguf/writer.h"

namespace thermocline::convert {

// Writes the data of `tensor`, the one that the writer expects next. Memory: a
// few MiB, whatever the tensor. kCorrupt, naming the tensor: NaN or infinity,
// or a number too large for F16.
Status StreamTensor(const PlannedTensor& tensor, gguf::Writer& writer);

}  // namespace thermocline::convert

#endif  // THERMOCLINE_CONVERT_TENSOR_STREAM_H_
