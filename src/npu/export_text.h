// The JSON files of an exported model.
#ifndef THERMOCLINE_NPU_EXPORT_TEXT_H_
#define THERMOCLINE_NPU_EXPORT_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "model/config.h"
#include "npu/export.h"
#include "npu/forms.h"
#include "tensor/tensor_view.h"

namespace thermocline::npu {

// variants.json.
std::string FormatExport(const ExportedModel& exported);
// Untrusted. kCorrupt, with the path and the key.
Result<ExportedModel> ParseExport(std::string_view text,
                                  const std::string& path);

// config.json: the facts that Hugging Face's files of that name have.
std::string FormatModelFacts(const model::Config& config);

// Of a matrix in that form, without what its scales are aligned to.
uint64_t RoughMatrixBytes(const TensorView& matrix, WeightForm form);

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_EXPORT_TEXT_H_
