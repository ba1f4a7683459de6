// The JSON files of an exported model.
#ifndef THERMOCLINE_NPU_EXPORT_TEXT_H_
#define THERMOCLINE_NPU_EXPORT_TEXT_H_

#include <string>
#include <string_view>

#include "base/status.h"
#include "model/config.h"
#include "npu/export.h"

namespace thermocline::npu {

// variants.json: an object of the model's path and fingerprint, forms, rows,
// contexts and layers of a graph (docs/formats/npu-folder.md).
std::string FormatExport(const ExportedModel& exported);
// Untrusted: any bytes may come, and what is more than the object is passed
// over. kCorrupt, with the path and the key: no JSON object, one without a key,
// with one of another type or beyond what a model can have; shapes that do not
// go together.
Result<ExportedModel> ParseExport(std::string_view text,
                                  const std::string& path);

// config.json: the facts that Hugging Face's files of that name have, for who
// looks into the folder; nothing here reads them.
std::string FormatModelFacts(const model::Config& config);

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_EXPORT_TEXT_H_
