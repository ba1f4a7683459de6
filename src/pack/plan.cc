#include "pack/plan.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/remedy.h"
#include "model/bundle.h"
#include "pack/down_source.h"

namespace thermocline::pack {
namespace {

PackedLayer PlanLayer(const model::FfnWeights& down_from,
                      std::optional<neuron::RecordLayout> layout) {
  const model::FfnMatrices& ffn = model::ExpertsOf(down_from).front();
  return {.layout = layout,
          .down_source = ffn.down_t ? ffn.down_t.dtype : ffn.down.dtype};
}

// The model is named in the error already. Gate and up rows have D elements in
// the source too: what does not fit is the type of down, or of none of them.
Error AdviseFor(const model::Config& config, const PackOptions& options,
                const Error& error) {
  const char* fits = config.width % 32 == 0
                         ? "Q8_0 or Q4_0, whose blocks of 32 do"
                         : "F16, which has no blocks";
  return {
      error.code,
      fmt::format("{}; {}down can be {}", error.message,
                  options.down_dtype ? "" : "quantise the model, or ", fits),
      Advice{Remedy::kDownType}};
}

// Of layers: whose gate rows are in the records. Without a predictor all gates
// are read, in sequence, so a matrix is faster (`exact` 1.17 times with AVX2);
// with one most candidates fire, and gates apart cost neurons 7 to 10 %.
std::vector<bool> LayersThatBundleGates(const model::Model& source,
                                        const PreparedParts& parts,
                                        const PackOptions& options) {
  const bool for_storage = options.record_alignment > neuron::kRecordAlignment;
  // Those of ours in the source give way to `parts`.
  const bool keeps_foreign =
      source.config().predictor.kind != model::PredictorKind::kThermocline;
  std::vector<bool> bundles_gate;
  for (const model::LayerWeights& layer : source.weights().layers) {
    const size_t i = bundles_gate.size();
    const bool has_predictor = parts.predictors.empty()
                                   ? keeps_foreign && layer.predictor.up
                                   : parts.predictors[i].has_value();
    const bool has_training_free =
        !parts.training_free.empty() && parts.training_free[i].has_value();
    bundles_gate.push_back(for_storage || has_predictor || has_training_free);
  }
  return bundles_gate;
}

}  // namespace

Result<std::vector<PackedLayer>> PlanRecords(const model::Model& source,
                                             const PreparedParts& parts,
                                             const PackOptions& options) {
  const model::Model& down_from =
      options.down_source == nullptr ? source : *options.down_source;
  if (options.down_source != nullptr) {
    TC_RETURN_IF_ERROR(CheckDownSource(source, *options.down_source));
  }
  std::vector<neuron::RecordLayout> layouts = source.config().records;
  if (options.bundle) {
    auto planned = model::PlanLayouts(
        source.file().path(), source.config(), source.weights(),
        {.down_dtype = options.down_dtype,
         .alignment = options.record_alignment,
         .bundles_gate = LayersThatBundleGates(source, parts, options)});
    if (!planned) {
      return tl::unexpected(
          AdviseFor(source.config(), options, planned.error()));
    }
    layouts = *std::move(planned);
  }
  std::vector<PackedLayer> layers;
  for (size_t i = 0; i < source.weights().layers.size(); ++i) {
    std::optional<neuron::RecordLayout> layout;
    if (!layouts.empty()) layout = layouts[i];
    layers.push_back(PlanLayer(down_from.weights().layers[i].ffn, layout));
  }
  return layers;
}

}  // namespace thermocline::pack
