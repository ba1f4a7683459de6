// Converts one tensor's elements and passes them on piece by piece.
#ifndef THERMOCLINE_IMPORT_TENSOR_STREAM_H_
#define THERMOCLINE_IMPORT_TENSOR_STREAM_H_

#include <cstddef>
#include <string>

#include "base/status.h"
#include "gguf/writer.h"
#include "import/tensor_plan.h"

namespace thermocline::importer {

// Writes what source `source_idx` gives of the data of `tensor`, the one that
// the writer expects next; its sources come in order. Memory: a few MiB,
// whatever the tensor. kCorrupt, naming `folder`, which it comes from,
// and the source: NaN or infinity, or a number too large for the type.
Status StreamSource(const std::string& folder, const PlannedTensor& tensor,
                    size_t source_idx, gguf::Writer& writer);

}  // namespace thermocline::importer

#endif  // THERMOCLINE_IMPORT_TENSOR_STREAM_H_
