// Which tensors of a checkpoint become which tensor of the model file.
#ifndef THERMOCLINE_IMPORT_TENSOR_PLAN_H_
#define THERMOCLINE_IMPORT_TENSOR_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "import/checkpoint.h"
#include "import/hf_config.h"
#include "tensor/dtype.h"
#include "tensor/tensor_view.h"

namespace thermocline::importer {

struct PlannedTensor {
  std::string name;  // in the model file
  // In the checkpoint, one behind the other; all of one shape and with a dtype.
  std::vector<const SafeTensor*> sources;
  DType dtype;
  Shape shape;
  // Row r of each source's part is row rows[r] of the source; empty: all, in
  // order. A vector's elements count as rows.
  std::vector<uint32_t> rows;
  bool adds_one = false;  // to every element
};

// In the order of the file, the embedding first: every tensor of the
// architecture, shapes checked. kCorrupt: a tensor is missing or has another
// shape; kUnsupported: an element type that is not a float's, or a tensor that
// the architecture does not know.
Result<std::vector<PlannedTensor>> PlanTensors(const HfConfig& config,
                                               const Checkpoint& checkpoint,
                                               DType matrix_dtype);

}  // namespace thermocline::importer

#endif  // THERMOCLINE_IMPORT_TENSOR_PLAN_H_
