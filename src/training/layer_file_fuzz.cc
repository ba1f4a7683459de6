// Any bytes as a kept layer of one small model: refused, or findings that can
// be printed and predictors that may be written.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "gguf/gguf.h"
#include "training/layer_file.h"

namespace thermocline::training {
namespace {

constexpr size_t kLayer = 1;

void CheckFindings(const PredictorFindings& findings) {
  TC_CHECK(findings.rank < uint64_t{1} << 53);
  TC_CHECK(findings.num_bytes < uint64_t{1} << 53);
  for (const double value :
       {findings.recall, findings.precision, findings.candidates_per_fired}) {
    TC_CHECK(std::isfinite(value));
  }
}

void CheckLayer(const LayerFile& layer, const model::Config& config) {
  const LayerFindings& findings = layer.findings;
  CheckFindings(findings.trained);
  CheckFindings(findings.free);
  TC_CHECK(findings.trained.rank ==
           (layer.trained ? layer.trained->up.num_rows : 0));
  TC_CHECK(findings.free.rank == (layer.free ? layer.free->up.num_rows : 0));
  for (const double value :
       {findings.density, findings.skew, findings.locality.value_or(0.0),
        findings.free_sign_candidates_per_fired, findings.fired_per_group,
        findings.fired_per_group_as_they_lie}) {
    TC_CHECK(std::isfinite(value));
  }
  TC_CHECK(findings.recall_ahead.size() <= kMaxAhead + 1);
  for (const double value : findings.recall_ahead) {
    TC_CHECK(std::isfinite(value));
  }
  pack::PreparedParts parts;
  parts.predictors = {std::nullopt, layer.trained};
  parts.training_free = {std::nullopt, layer.free};
  parts.order = {layer.order, layer.order};
  TC_CHECK(pack::CheckParts(parts, config).has_value());
}

}  // namespace
}  // namespace thermocline::training

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thermocline;
  const auto file =
      gguf::File::Parse(std::as_bytes(std::span(data, size)), "fuzz");
  if (!file) return 0;
  model::Config config;
  config.architecture = "llama";
  config.num_layers = 2;
  config.width = 32;
  const model::LayerSpec spec = {.ffn = {.width = 64}};
  config.layers = {spec, spec};
  const auto layer = training::ReadLayerFile(**file, training::kLayer, config);
  if (layer) training::CheckLayer(*layer, config);
  return 0;
}
