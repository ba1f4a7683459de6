// Writes prepared models: a model's file with its FFNs as records, and with
// what was found out about it. Byte by byte: docs/formats/prepared.md.
#ifndef THERMOCLINE_CONVERT_PACK_H_
#define THERMOCLINE_CONVERT_PACK_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/status.h"
#include "convert/pack_parts.h"
#include "model/model.h"
#include "neuron/record.h"
#include "tensor/dtype.h"

namespace thermocline::convert {

struct PackOptions {
  bool bundle = true;  // false: the FFNs stay as they lie
  // Of records; kStorageAlignment for reads past the page cache.
  size_t record_alignment = neuron::kRecordAlignment;
  // Of the down columns; absent: the type that the down matrix has.
  std::optional<DType> down_dtype;
  // The same model in a better type, where the down columns are taken from.
  const model::Model* down_source = nullptr;

  int num_threads = 0;                        // as os::ThreadPool's
  const std::atomic<bool>* cancel = nullptr;  // looked at every few MiB
  ProgressFn progress;                        // bytes of the output
};

// What became of one layer's FFN. Gate and up rows are always copied bit by
// bit.
struct PackedLayer {
  std::optional<neuron::RecordLayout> layout;  // absent: not bundled
  DType down_source = DType::kF32;  // what the down columns were made from
  // RMS of (column as written - column as read) over the RMS of those read: 0
  // if nothing was lost.
  double down_error = 0;
};

struct PackSummary {
  std::vector<PackedLayer> layers;  // [L]
  double down_error = 0;            // of all layers together
  uint64_t num_source_bytes = 0;    // of files
  uint64_t num_bytes = 0;
};

// How the layers would be bundled [L]; with options.bundle false, and for a
// source that is bundled, layers as they are. Reads no weights: to be asked
// before hours of training.
// kUnsupported: a type that cannot be bundled; the message names the tensor and
// what to do. kInvalidArgument: down_source is no model of the same extents.
Result<std::vector<PackedLayer>> PlanRecords(const model::Model& source,
                                             const PackOptions& options);

// Writes `source` with `parts` to `output`: all keys and tensors of the source,
// except that FFN matrices become records, that predictors, thresholds, counts,
// order and self-test are those of `parts` alone (ReadParts keeps earlier
// ones), and that foreign predictors are left out where `parts` has predictors.
// The bytes do not depend on the number of threads. Memory: some 100 MiB,
// whatever the model. The file appears at the end, whole or not at all.
// PlanRecords' and CheckParts' errors; kInvalidArgument: the output is a file
// of the source; kCorrupt: weights that are not finite; kIo; kCancelled.
Result<PackSummary> Pack(const model::Model& source, const PreparedParts& parts,
                         const std::string& output, const PackOptions& options);

}  // namespace thermocline::convert

#endif  // THERMOCLINE_CONVERT_PACK_H_
