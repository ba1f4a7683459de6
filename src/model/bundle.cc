#include "model/bundle.h"

#include <cmath>
#include <memory>
#include <utility>

#include "base/remedy.h"
#include "base/units.h"
#include "os/thread_pool.h"

namespace thermocline::model {
namespace {

// As neuron::MakeRecordLayout, for matrices that may be in records already.
Result<neuron::RecordLayout> LayoutOf(const FfnMatrices& matrices,
                                      uint64_t width, bool bundles_gate,
                                      const LayoutOptions& options) {
  std::optional<DType> gate;
  if (matrices.gate && bundles_gate) gate = matrices.gate.dtype;
  // The down columns of a file with both are those that need no encoding.
  const DType down =
      matrices.down_t ? matrices.down_t.dtype : matrices.down.dtype;
  return neuron::MakeRecordLayout(gate, matrices.up.dtype,
                                  options.down_dtype.value_or(down), width,
                                  options.alignment);
}

bool HasPredictor(const LayerWeights& layer) {
  return layer.predictor.up || layer.training_free.signs;
}

std::span<FfnMatrices> ExpertsOf(FfnWeights& ffn) {
  if (ffn.experts.empty()) return {static_cast<FfnMatrices*>(&ffn), 1};
  return ffn.experts;
}

}  // namespace

std::span<const FfnMatrices> ExpertsOf(const FfnWeights& ffn) {
  if (ffn.experts.empty()) return {static_cast<const FfnMatrices*>(&ffn), 1};
  return ffn.experts;
}

Result<std::vector<neuron::RecordLayout>> PlanLayouts(
    const std::string& path, const Config& config, const Weights& weights,
    const LayoutOptions& options) {
  std::vector<neuron::RecordLayout> layouts;
  for (const LayerWeights& layer : weights.layers) {
    const size_t layer_idx = layouts.size();
    const bool bundles_gate = options.bundles_gate.empty()
                                  ? HasPredictor(layer)
                                  : options.bundles_gate[layer_idx];
    for (const FfnMatrices& matrices : ExpertsOf(layer.ffn)) {
      auto layout = LayoutOf(matrices, config.width, bundles_gate, options);
      if (!layout) {
        return Annotate(fmt::format("{}: layer {}", path, layer_idx),
                        layout.error());
      }
      if (layouts.size() == layer_idx) layouts.push_back(*layout);
      // Gates that stay a matrix become one tensor of all experts.
      const bool is_alike =
          *layout == layouts.back() &&
          matrices.gate.dtype == ExpertsOf(layer.ffn).front().gate.dtype;
      if (is_alike) continue;
      return Fail(ErrorCode::kUnsupported,
                  "{}: layer {}: its experts have unlike types, so they cannot "
                  "be bundled (quantise the model again, to one type)",
                  path, layer_idx);
    }
  }
  return layouts;
}

uint64_t NumRecordBytes(const Config& config,
                        std::span<const neuron::RecordLayout> layouts) {
  uint64_t num_bytes = 0;
  for (size_t i = 0; i < layouts.size(); ++i) {
    num_bytes += layouts[i].stride * NumNeurons(config.layers[i].ffn);
  }
  return num_bytes;
}

Status CheckRecordsFit(const std::string& path, uint64_t num_bytes,
                       uint64_t ram_bytes) {
  if (num_bytes <= ram_bytes) return {};
  return Fail(ErrorCode::kResourceExhausted,
              "{}: bundled at load its FFNs take {} of memory, and this "
              "machine has {}: prepare the model, whose records stay in the "
              "file",
              path, FormatBytes(num_bytes), FormatBytes(ram_bytes));
}

void UseRecords(const neuron::RecordLayout& layout, const std::byte* records,
                uint64_t num_neurons, FfnMatrices& matrices) {
  const neuron::RecordViews views =
      neuron::ViewRecords(layout, records, num_neurons);
  matrices = {.gate = views.gate ? views.gate : matrices.gate,
              .up = views.up,
              .down = {},
              .down_t = views.down_t,
              .bundled = true};
}

Result<Bundles> BundleFfns(const std::string& path, int num_threads,
                           const ProgressFn& progress, Config& config,
                           Weights& weights) {
  TC_ASSIGN_OR_RETURN(auto layouts, PlanLayouts(path, config, weights));
  TC_ASSIGN_OR_RETURN(auto pool,
                      os::ThreadPool::Create({.num_threads = num_threads}));
  neuron::RecordBuilder builder(pool.get());
  const uint64_t num_total = NumRecordBytes(config, layouts);
  uint64_t num_done = 0;
  Bundles bundles;
  for (size_t i = 0; i < layouts.size(); ++i) {
    const std::span experts = ExpertsOf(weights.layers[i].ffn);
    const size_t num_neurons = config.layers[i].ffn.width;
    const size_t expert_bytes = layouts[i].stride * num_neurons;
    auto buffer = os::AlignedBuffer::Allocate(expert_bytes * experts.size());
    if (!buffer) return Annotate(path + ": bundling", buffer.error());
    std::byte* records = buffer->data();
    for (FfnMatrices& matrices : experts) {
      ReportProgress(progress, "bundling", num_done, num_total);
      bundles.cost.Add(builder.Build(layouts[i], SourceOf(matrices), 0,
                                     num_neurons, records));
      UseRecords(layouts[i], records, num_neurons, matrices);
      records += expert_bytes;
      num_done += expert_bytes;
    }
    if (!std::isfinite(bundles.cost.squared_error)) {
      return Fail(ErrorCode::kCorrupt, Advice{Remedy::kCheckTensors},
                  "{}: layer {}: weights of the FFN are not finite: damaged",
                  path, i);
    }
    bundles.layers.push_back(*std::move(buffer));
  }
  ReportProgress(progress, "bundling", num_total, num_total);
  config.records = std::move(layouts);
  return bundles;
}

}  // namespace thermocline::model
