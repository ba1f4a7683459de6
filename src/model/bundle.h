// FFNs as records in anonymous memory, for files that have them as matrices.
#ifndef THERMOCLINE_MODEL_BUNDLE_H_
#define THERMOCLINE_MODEL_BUNDLE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/status.h"
#include "model/config.h"
#include "model/model.h"
#include "neuron/record.h"
#include "neuron/record_builder.h"
#include "os/memory.h"

namespace thermocline::model {

struct LayoutOptions {
  std::optional<DType> down_dtype;  // absent: that of the down matrix
  size_t alignment = neuron::kRecordAlignment;
  // Whose gate rows are in the records [L]; empty: those with a predictor,
  // which reads gate rows here and there, and the rest of most of them. Other
  // layers test all: their gate rows stay a matrix.
  std::vector<bool> bundles_gate;
};

// The FFN of a layer, or its experts, in their order.
std::span<const FfnMatrices> ExpertsOf(const FfnWeights& ffn);

// How each layer would be bundled [L]. kUnsupported: a type that cannot be, or
// experts of one layer that have unlike types; names the file and the layer.
Result<std::vector<neuron::RecordLayout>> PlanLayouts(
    const std::string& path, const Config& config, const Weights& weights,
    const LayoutOptions& options = {});

// Of all records.
uint64_t NumRecordBytes(const Config& config,
                        std::span<const neuron::RecordLayout> layouts);

// kResourceExhausted, with both numbers: records that the machine cannot hold.
Status CheckRecordsFit(const std::string& path, uint64_t num_bytes,
                       uint64_t ram_bytes = os::ReadMemoryInfo().total_bytes);

inline neuron::RecordSource SourceOf(const FfnMatrices& matrices) {
  return {.gate = matrices.gate,
          .up = matrices.up,
          .down = matrices.down,
          .down_t = matrices.down_t};
}

// Points `matrices` at records of num_neurons neurons, and leaves the gate
// where it is if these have none.
void UseRecords(const neuron::RecordLayout& layout, const std::byte* records,
                uint64_t num_neurons, FfnMatrices& matrices);

// Records that weights point into.
struct Bundles {
  std::vector<os::AlignedBuffer> layers;  // [L]
  neuron::DownCost cost;
};

// Builds the records, and turns `weights` and config.records to them.
// PlanLayouts' errors and os::ThreadPool's; kResourceExhausted: no memory.
// kCorrupt: weights of down columns that are encoded again are not finite.
// Takes as long as reading the FFNs, and for quantised ones as encoding down.
Result<Bundles> BundleFfns(const std::string& path, int num_threads,
                           const ProgressFn& progress, Config& config,
                           Weights& weights);

}  // namespace thermocline::model

#endif  // THERMOCLINE_MODEL_BUNDLE_H_
