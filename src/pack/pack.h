// Writes prepared models: a model's file with its FFNs as records, and with
// what was found out about it. Byte by byte: docs/formats/prepared.md.
#ifndef THERMOCLINE_PACK_PACK_H_
#define THERMOCLINE_PACK_PACK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/model.h"
#include "pack/parts.h"
#include "pack/plan.h"

namespace thermocline::pack {

struct PackSummary {
  std::vector<PackedLayer> layers;  // [L]
  double down_error = 0;            // of all layers together
  // Why records are in the source's order where another was asked for.
  std::string why_in_number_order;
  uint64_t num_source_bytes = 0;  // of files
  uint64_t num_bytes = 0;
};

// Writes `source` with `parts` to `output`: all keys and tensors of the source,
// except that FFN matrices become records, that predictors, thresholds, counts,
// order and self-test are those of `parts` alone (ReadParts keeps earlier
// ones), and that foreign predictors are left out where `parts` has predictors.
// The bytes do not depend on the number of threads. Memory: some 100 MiB,
// whatever the model, and with options.in_order the records of a layer. The
// file appears at the end, whole or not at all. PlanRecords' and CheckParts'
// errors; kInvalidArgument: the output is a file of the source or of
// options.down_source; kCorrupt: down columns that are not finite, or too large
// for their type; kIo; kCancelled.
Result<PackSummary> Pack(const model::Model& source, const PreparedParts& parts,
                         const std::string& output, const PackOptions& options);

}  // namespace thermocline::pack

#endif  // THERMOCLINE_PACK_PACK_H_
