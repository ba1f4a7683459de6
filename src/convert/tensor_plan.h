// Which tensor of a checkpoint becomes which tensor of the model file.
#ifndef THERMOCLINE_CONVERT_TENSOR_PLAN_H_
#define THERMOCLINE_CONVERT_TENSOR_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "convert/checkpoint.h"
#include "convert/hf_config.h"
#include "tensor/dtype.h"
#include "tensor/tensor_view.h"

namespace thermocline::convert {

// The order in which Llama's heads are stored. Rotary embedding turns two
// elements together: Hugging Face stores element j of the first half and of the
// second half of a head hd / 2 rows apart, GGUF's llama stores them side by
// side. Row r of the file is row SourceRow(r, head_width) of the checkpoint.
uint64_t SourceRow(uint64_t row, uint64_t head_width);

struct PlannedTensor {
  std::string name;          // in the model file
  const SafeTensor* source;  // in the checkpoint
  DType dtype;
  Shape shape;
  uint64_t permuted_head_width;  // 0: rows stay in order
};

// In the order of the file: every tensor of the architecture, shapes checked.
// kCorrupt: a tensor is missing or has another shape; kUnsupported: an element
// type that is not a float's, or a tensor that the architecture does not know.
Result<std::vector<PlannedTensor>> PlanTensors(const HfConfig& config,
                                               const Checkpoint& checkpoint,
                                               DType matrix_dtype);

}  // namespace thermocline::convert

#endif  // THERMOCLINE_CONVERT_TENSOR_PLAN_H_
