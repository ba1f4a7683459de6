#include "eval/sparsity.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "neuron/profile.h"

namespace thermocline::eval {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::optional<double> Ratio(uint64_t part, uint64_t whole) {
  if (whole == 0) return std::nullopt;
  return static_cast<double>(part) / static_cast<double>(whole);
}

// FFNs that a token goes through in a layer.
uint64_t NumUsed(const model::FfnSpec& ffn) {
  return std::max<size_t>(ffn.num_experts_used, 1);
}

uint64_t PredictorBytes(const model::Model& model, size_t layer_idx,
                        engine::PredictorChoice choice) {
  const model::Config& config = model.config();
  const model::LayerWeights& layer = model.weights().layers[layer_idx];
  // Every expert in use reads what it makes of the input anew.
  const model::FfnSpec& spec = config.layers[layer_idx].ffn;
  const uint64_t num_used = NumUsed(spec);
  const size_t num_neurons = spec.width;
  const auto bytes_of = [&](const TensorView& up, const TensorView& down) {
    return num_used * (up.num_bytes() + down.row_bytes() * num_neurons);
  };
  if (choice == engine::PredictorChoice::kTrained) {
    return layer.predictor.up
               ? bytes_of(layer.predictor.up, layer.predictor.down)
               : 0;
  }
  if (choice != engine::PredictorChoice::kTrainingFree) return 0;
  const model::TrainingFreeWeights& free = layer.training_free;
  // A file's layer without one tests all its neurons; of a file that has none
  // at all, the session took signs of its own, as many.
  if (!free.signs && config.has_training_free) return 0;
  const uint64_t sign_bytes =
      num_used * num_neurons * ((config.width + 63) / 64) * sizeof(uint64_t);
  return sign_bytes + (free.down ? bytes_of(free.up, free.down) : 0);
}

std::string Cell(std::optional<double> value, double scale, int width,
                 int precision) {
  if (!value.has_value()) return fmt::format("{:>{}}", "-", width);
  return fmt::format("{:>{}.{}f}", *value * scale, width, precision);
}

std::string Row(const std::string& name, const SparsityCounts& counts) {
  const auto kib = Ratio(counts.num_bytes, counts.num_tokens * 1024);
  return fmt::format("{:>5}  {}  {}  {}  {}  {}  {}  {}\n", name,
                     Cell(counts.density(), 100.0, 9, 2),
                     Cell(counts.candidates(), 100.0, 12, 2),
                     Cell(counts.excess(), 1.0, 10, 2),
                     Cell(counts.recall(), 100.0, 8, 2),
                     Cell(counts.precision(), 100.0, 11, 2),
                     Cell(kib, 1.0, 9, 1), Cell(counts.bytes(), 100.0, 10, 1));
}

OrderedJson OrNull(std::optional<double> value) {
  return value.has_value() ? OrderedJson(*value) : OrderedJson(nullptr);
}

OrderedJson CountsJson(const SparsityCounts& counts) {
  return {
      {"density", OrNull(counts.density())},
      {"candidates", OrNull(counts.candidates())},
      {"candidates_per_active", OrNull(counts.excess())},
      {"recall", OrNull(counts.recall())},
      {"precision", OrNull(counts.precision())},
      {"bytes_per_token", OrNull(Ratio(counts.num_bytes, counts.num_tokens))},
      {"predictor_bytes_per_token",
       OrNull(Ratio(counts.num_predictor_bytes, counts.num_tokens))},
      {"dense_bytes_per_token",
       OrNull(Ratio(counts.num_dense_bytes, counts.num_tokens))},
      {"bytes_share", OrNull(counts.bytes())}};
}

}  // namespace

std::optional<double> SparsityCounts::density() const {
  return Ratio(num_active, num_neurons);
}
std::optional<double> SparsityCounts::candidates() const {
  return Ratio(num_candidates, num_neurons);
}
std::optional<double> SparsityCounts::excess() const {
  return Ratio(num_candidates, num_active);
}
std::optional<double> SparsityCounts::recall() const {
  return Ratio(num_found, num_active);
}
std::optional<double> SparsityCounts::precision() const {
  return Ratio(num_found, num_candidates);
}
std::optional<double> SparsityCounts::bytes() const {
  return Ratio(num_bytes, num_dense_bytes);
}

void SparsityCounts::AddLayer(const SparsityCounts& other) {
  num_neurons += other.num_neurons;
  num_active += other.num_active;
  num_candidates += other.num_candidates;
  num_found += other.num_found;
  num_bytes += other.num_bytes;
  num_predictor_bytes += other.num_predictor_bytes;
  num_dense_bytes += other.num_dense_bytes;
}

SparsityMeter::SparsityMeter(std::shared_ptr<const model::Model> model)
    : model_(std::move(model)) {}

engine::FfnObserver SparsityMeter::observer() {
  return [this](const engine::FfnObservation& seen) { See(seen); };
}

Status SparsityMeter::Begin(const engine::Session& session) {
  TC_CHECK(&session.model() == model_.get());
  const bool has_threshold = session.ffn() == engine::FfnMode::kThreshold;
  TC_ASSIGN_OR_RETURN(probe_, engine::GateProbe::Create(
                                  model_, session.isa(),
                                  has_threshold ? model_->config().thresholds
                                                : std::vector<float>()));
  const size_t num_layers = model_->config().num_layers;
  bytes_.clear();
  for (size_t l = 0; l < num_layers; ++l) {
    bytes_.push_back(BytesOf(l, session));
  }
  layers_.assign(num_layers, {});
  return {};
}

SparsityMeter::LayerBytes SparsityMeter::BytesOf(
    size_t layer_idx, const engine::Session& session) const {
  const model::FfnSpec& spec = model_->config().layers[layer_idx].ffn;
  const model::LayerWeights& layer = model_->weights().layers[layer_idx];
  const bool is_mixture = !layer.ffn.experts.empty();
  const model::FfnMatrices& ffn =
      is_mixture ? layer.ffn.experts.front() : layer.ffn;
  const uint64_t num_used = NumUsed(spec);
  const auto& down = ffn.down_t ? ffn.down_t : ffn.down;
  const uint64_t gate_bytes = spec.gated ? ffn.gate.num_bytes() : 0;
  LayerBytes bytes;
  bytes.dense = num_used * (gate_bytes + ffn.up.num_bytes() + down.num_bytes());
  if (session.ffn() == engine::FfnMode::kDense) {
    bytes.always = bytes.dense;
    return bytes;
  }
  bytes.predictor = PredictorBytes(*model_, layer_idx, session.predictor());
  bytes.tested_row = (spec.gated ? ffn.gate : ffn.up).row_bytes();
  if (spec.gated) bytes.open_row = ffn.up.row_bytes();
  if (ffn.down_t) {
    bytes.open_row += ffn.down_t.row_bytes();
  } else {
    bytes.always = num_used * down.num_bytes();
  }
  return bytes;
}

void SparsityMeter::See(const engine::FfnObservation& seen) {
  TC_CHECK(probe_ != nullptr);
  probe_->Look(seen);
  const size_t layer_idx = seen.layer_idx;
  const LayerBytes& bytes = bytes_[layer_idx];
  const uint64_t num_open = neuron::CountBoth(seen.candidates, probe_->open());
  SparsityCounts& counts = layers_[layer_idx];
  ++counts.num_tokens;
  counts.num_neurons += NumNeurons(model_->config().layers[layer_idx].ffn);
  counts.num_active += probe_->fired().size();
  counts.num_candidates += seen.candidates.size();
  counts.num_found += neuron::CountBoth(seen.candidates, probe_->fired());
  counts.num_bytes += bytes.predictor + bytes.always +
                      bytes.tested_row * seen.candidates.size() +
                      bytes.open_row * num_open;
  counts.num_predictor_bytes += bytes.predictor;
  counts.num_dense_bytes += bytes.dense;
}

Result<Sparsity> MeasureSparsity(engine::Session& session,
                                 engine::Session& dense, SparsityMeter& meter,
                                 std::span<const text::TokenId> tokens,
                                 const Chunks& chunks,
                                 const ProgressFn& progress) {
  TC_CHECK(!meter.layers().empty());
  TC_ASSIGN_OR_RETURN(auto divergence, MeasureDivergence(session, dense, tokens,
                                                         chunks, progress));
  Sparsity sparsity = {
      .mode = std::string(NameOf(session.ffn())),
      .predictor = std::string(NameOf(session.predictor())),
      .layers = {meter.layers().begin(), meter.layers().end()},
      .total = {.num_tokens = meter.layers().front().num_tokens},
      .divergence = divergence};
  for (const SparsityCounts& layer : sparsity.layers) {
    sparsity.total.AddLayer(layer);
  }
  return sparsity;
}

std::string FormatSparsity(const Sparsity& sparsity) {
  std::string out = fmt::format(
      "{}{} at {}, against dense\n\n"
      "layer  density %  candidates %  per active  recall %  precision %  "
      "KiB/token  of dense %\n",
      sparsity.mode,
      sparsity.predictor == "none"
          ? ""
          : fmt::format(" ({} predictors)", sparsity.predictor),
      Plural(sparsity.layers.empty() ? 0 : sparsity.layers.front().num_tokens,
             "position"));
  for (size_t l = 0; l < sparsity.layers.size(); ++l) {
    out += Row(fmt::format("{}", l), sparsity.layers[l]);
  }
  return out + Row("all", sparsity.total) + "\n" +
         FormatDivergence(sparsity.divergence);
}

std::string FormatSparsityJson(const Sparsity& sparsity) {
  OrderedJson layers = OrderedJson::array();
  for (size_t l = 0; l < sparsity.layers.size(); ++l) {
    OrderedJson layer = {{"layer", l}};
    layer.update(CountsJson(sparsity.layers[l]));
    layers.push_back(std::move(layer));
  }
  OrderedJson json = {
      {"mode", sparsity.mode},
      {"predictor", sparsity.predictor},
      {"positions",
       sparsity.layers.empty() ? 0 : sparsity.layers.front().num_tokens}};
  json.update(CountsJson(sparsity.total));
  json["layers"] = std::move(layers);
  json["divergence"] =
      OrderedJson::parse(FormatDivergenceJson(sparsity.divergence), nullptr,
                         /*allow_exceptions=*/false);
  return json.dump();
}

}  // namespace thermocline::eval
