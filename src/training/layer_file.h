// What was found out about one layer, as a stage's file in a work folder.
#ifndef THERMOCLINE_TRAINING_LAYER_FILE_H_
#define THERMOCLINE_TRAINING_LAYER_FILE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "gguf/gguf.h"
#include "model/config.h"
#include "pack/parts.h"
#include "training/findings.h"

namespace thermocline::training {

struct LayerFile {
  std::optional<pack::LayerPredictor> trained;
  std::optional<pack::LayerTrainingFree> free;
  std::vector<uint32_t> order;  // [N], as PreparedParts has it
  LayerFindings findings;

  bool operator==(const LayerFile&) const = default;
};

// A parts file (pack/part_file.h) with one layer's predictors, and the
// findings as keys. Appears whole or not at all. kIo.
Status WriteLayerFile(const LayerFile& layer, size_t layer_idx,
                      size_t lookahead, const model::Config& config,
                      const std::string& path);

// kCorrupt: not what WriteLayerFile wrote for that layer. Untrusted input.
// ReadParts' errors; by path, gguf::File::Open's too.
Result<LayerFile> ReadLayerFile(const gguf::File& file, size_t layer_idx,
                                const model::Config& config);
Result<LayerFile> ReadLayerFile(const std::string& path, size_t layer_idx,
                                const model::Config& config);

}  // namespace thermocline::training

#endif  // THERMOCLINE_TRAINING_LAYER_FILE_H_
