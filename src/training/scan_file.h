// What the scan of a corpus leaves beside the profile, as a stage's file in a
// work folder.
#ifndef THERMOCLINE_TRAINING_SCAN_FILE_H_
#define THERMOCLINE_TRAINING_SCAN_FILE_H_

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "gguf/gguf.h"
#include "model/config.h"
#include "pack/parts.h"
#include "training/threshold_search.h"

namespace thermocline::training {

struct ScanFile {
  std::vector<pack::LayerSelfTest> self_test;  // [L], without candidates
  std::vector<float> thresholds;               // [L], or empty: none
  std::optional<DensityChoice> choice;  // where they were chosen by their cost

  bool operator==(const ScanFile&) const = default;
};

// A parts file (pack/part_file.h), and the choice as keys. Appears whole or
// not at all. kIo.
Status WriteScanFile(const ScanFile& scan, const model::Config& config,
                     const std::string& path);

// kCorrupt: not what WriteScanFile wrote for such a model. Untrusted input.
// ReadParts' errors; by path, gguf::File::Open's too.
Result<ScanFile> ReadScanFile(const gguf::File& file,
                              const model::Config& config);
Result<ScanFile> ReadScanFile(const std::string& path,
                              const model::Config& config);

}  // namespace thermocline::training

#endif  // THERMOCLINE_TRAINING_SCAN_FILE_H_
