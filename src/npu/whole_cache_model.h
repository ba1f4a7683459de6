// Static models that give the keys and values of all positions to every call,
// and take them all back: NITRO's ways, for comparison.
#ifndef THERMOCLINE_NPU_WHOLE_CACHE_MODEL_H_
#define THERMOCLINE_NPU_WHOLE_CACHE_MODEL_H_

#include <memory>

#include "base/status.h"
#include "model/model.h"
#include "npu/static_model.h"

namespace thermocline::npu {

// What StaticModel::Create makes for KvForms other than kAppend.
//   kScatter   new rows go to their positions
//   kRoll      the oldest rows leave, the new ones stand last (NITRO 3.3)
//   kStateful  the same, in variables of the device's (NITRO 3.4)
// There is one context, the largest. Without padding, which would take the
// place of rows: a run is cut into as many of the most rows as there are, the
// remainder by smaller ones. A position beyond the context is refused, where
// NITRO drops the oldest.
// kInvalidArgument: no program for one row, or kStateful and another one too;
// kUnsupported: weights as inputs.
Result<std::unique_ptr<StaticModel>> MakeWholeCacheModel(
    std::shared_ptr<const model::Model> model,
    std::shared_ptr<StaticDevice> device, const StaticOptions& options);

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_WHOLE_CACHE_MODEL_H_
