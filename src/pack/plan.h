// What prepared models are packed by, and how their layers are bundled.
#ifndef THERMOCLINE_PACK_PLAN_H_
#define THERMOCLINE_PACK_PLAN_H_

#include <atomic>
#include <cstddef>
#include <optional>
#include <vector>

#include "base/progress.h"
#include "base/status.h"
#include "model/model.h"
#include "neuron/record.h"
#include "pack/parts.h"
#include "tensor/dtype.h"

namespace thermocline::pack {

struct PackOptions {
  bool bundle = true;  // false: the FFNs stay as they lie
  // Of records; kStorageAlignment for reads past the page cache.
  size_t record_alignment = neuron::kRecordAlignment;
  // Of the down columns; absent: the type that the down matrix has.
  std::optional<DType> down_dtype;
  // Neurons are numbered in the order of the parts, and so lie those that fire
  // together, where WhyInNumberOrder says nothing against it. Of records alone.
  bool in_order = false;
  // The same model in a better type, where the down columns are taken from.
  const model::Model* down_source = nullptr;

  int num_threads = 0;                        // as os::ThreadPool's
  const std::atomic<bool>* cancel = nullptr;  // looked at every few MiB
  ProgressFn progress;                        // bytes of the output
};

// What became of one layer's FFN. Gate and up rows are always copied bit by
// bit; gate rows stay a matrix in layers without a predictor, unless records
// are aligned for storage, where one read is to bring all of a neuron.
struct PackedLayer {
  std::optional<neuron::RecordLayout> layout;  // absent: not bundled
  DType down_source = DType::kF32;  // what the down columns were made from
  // RMS of (column as written - column as read) over the RMS of those read: 0
  // if nothing was lost.
  double down_error = 0;
};

// How the layers would be bundled [L], with these predictors; with
// options.bundle false, layers as they are. Reads no weights but samples of
// down_source's: to be asked before hours of training. kUnsupported: a type
// that cannot be bundled; the message names the tensor and what to do.
// CheckDownSource's error.
Result<std::vector<PackedLayer>> PlanRecords(const model::Model& source,
                                             const PreparedParts& parts,
                                             const PackOptions& options);

}  // namespace thermocline::pack

#endif  // THERMOCLINE_PACK_PLAN_H_
