// A model's graphs as a folder of files, laid out as NITRO's (NITRO 3.5), which
// OpenVINO's own tools read too.
#ifndef THERMOCLINE_NPU_EXPORT_H_
#define THERMOCLINE_NPU_EXPORT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/status.h"
#include "model/model.h"
#include "model/profile_file.h"
#include "npu/forms.h"
#include "npu/layer_inputs.h"
#include "npu/static_model.h"

namespace thermocline::npu {

struct ExportOptions {
  WeightForm weights = WeightForm::kExact;
  std::vector<int64_t> rows = {1, 8, 128};      // T; ascending
  std::vector<int64_t> contexts = {512, 2048};  // S + T; ascending
  size_t layers_per_graph = 0;                  // 0: all of them
  // NITRO's: one row and the first context, keys and values as variables, and
  // the embedding as a graph.
  bool is_nitro = false;
  ProgressFn progress;  // graphs
};

// What a folder's variants.json says.
struct ExportedModel {
  std::string model_path;  // the GGUF that it was made of
  model::ModelFingerprint model;
  WeightForm weights = WeightForm::kExact;
  KvForm kv = KvForm::kAppend;
  std::vector<int64_t> rows;
  std::vector<int64_t> contexts;
  size_t layers_per_graph = 0;
};

// DIR/config.json          the model's facts, as Hugging Face names them
// DIR/variants.json        what there is: ExportedModel
// DIR/model/<n>.xml, .bin  NITRO's chunks: 0 the embedding, the last the head
// DIR/model/t<T>_c<C>_<n>.xml, head_t<T>.xml   else
// DIR/model/cache/         for what devices compile
// Nothing of DIR is there before; after an error nothing is left of it.
// error: how far the weights are from the file's, or null. kInvalidArgument:
// DIR exists, or the shapes do not go together; kIo; errors of BuildBlocks.
Status ExportModel(const model::Model& model, const std::string& folder,
                   const ExportOptions& options, UnpackError* error);

// The errors that ExportModel begins with.
Status CheckExport(const model::Model& model, const std::string& folder,
                   const ExportOptions& options);

// Roughly the bytes that ExportModel will write.
uint64_t RoughExportBytes(const model::Model& model,
                          const ExportOptions& options);

// kNotFound: no such folder, or not one of ExportModel's; kCorrupt.
Result<ExportedModel> ReadExport(const std::string& folder);

// Options by which StaticModel takes its graphs from the folder.
// kInvalidArgument: they are those of another model.
Result<StaticOptions> OptionsOf(const ExportedModel& exported,
                                const std::string& folder,
                                const model::Model& model);

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_EXPORT_H_
