#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "cli/trace_report.h"
#include "neuron/json_values.h"

namespace thermocline::cli {
namespace {

using Json = nlohmann::ordered_json;

Json RecurrenceJson(const UnitFigures& figures) {
  Json tenths = Json::array();
  for (size_t k = 0; k < neuron::kHeatTenths; ++k) {
    const neuron::Recurrence tenth = figures.TenthOfAll(k);
    Json again = Json::array();
    for (size_t d = 1; d <= neuron::kMaxOffset; ++d) {
      again.push_back(OrNull(tenth.at(d)));
    }
    tenths.push_back(
        {{"again", std::move(again)}, {"chance", OrNull(tenth.by_chance())}});
  }
  return tenths;
}

Json UnitLayerJson(const UnitFigures& figures, size_t l) {
  const neuron::LayerProfile& layer = figures.profile.layers[l];
  const neuron::LayerDynamics& dynamics = figures.layers[l];
  return {{"layer", l},
          {"density", layer.density()},
          {"density_deviation", layer.density_deviation()},
          {"skew", layer.skew()},
          {"never_fired", layer.never_fired()},
          {"locality", OrNull(layer.locality())},
          {"chance_locality", layer.chance_locality()},
          {"jaccard", OrNull(dynamics.jaccard.value())},
          {"jaccard_with_hot", OrNull(dynamics.jaccard_with_hot.value())},
          {"jaccard_of_texts", OrNull(figures.texts[l].value())},
          {"hot", dynamics.num_hot},
          {"hot_per_token", dynamics.hot.mean()},
          {"hot_deviation", dynamics.hot.deviation()},
          {"cold_per_token", dynamics.cold.mean()},
          {"cold_deviation", dynamics.cold.deviation()},
          {"cold_most", dynamics.cold.most}};
}

Json UnitLayersJson(const UnitFigures& figures) {
  Json layers = Json::array();
  for (size_t l = 0; l < figures.layers.size(); ++l) {
    layers.push_back(UnitLayerJson(figures, l));
  }
  return layers;
}

Json NamedJson(const NamingFigures& figures) {
  Json layers = Json::array();
  for (size_t l = 0; l < figures.layers.size(); ++l) {
    layers.push_back({{"layer", l},
                      {"recall", OrNull(figures.layers[l].recall())},
                      {"precision", OrNull(figures.layers[l].precision())}});
  }
  const neuron::Naming total = figures.total();
  return {{"lookahead", OrNull(figures.lookahead)},
          {"recall", OrNull(total.recall())},
          {"precision", OrNull(total.precision())},
          {"named", total.num_named},
          {"fired", total.num_fired},
          {"layers", std::move(layers)}};
}

Json TextsJson(const TextOverlap& texts) {
  Json matrix = Json::array();
  for (const auto& row : texts.jaccard) {
    Json cells = Json::array();
    for (const auto& share : row) cells.push_back(OrNull(share));
    matrix.push_back(std::move(cells));
  }
  return {{"names", texts.names}, {"jaccard", std::move(matrix)}};
}

Json ExpertsJson(const TraceReport& report) {
  if (!report.experts) return nullptr;
  return {{"num_experts", report.header.num_experts},
          {"per_token",
           report.experts->profile.density() * report.header.num_experts},
          {"layers", UnitLayersJson(*report.experts)},
          {"reactivation", RecurrenceJson(*report.experts)}};
}

}  // namespace

std::string FormatTraceJson(const TraceReport& report) {
  const neuron::TraceHeader& header = report.header;
  const neuron::Profile& profile = report.neurons.profile;
  // Figures of nothing are none, not 0.
  const bool is_empty = report.totals.num_tokens == 0;
  const auto figure = [is_empty](double value) {
    return is_empty ? Json(nullptr) : Json(value);
  };
  Json named = Json::array();
  for (const NamingFigures& figures : report.named) {
    named.push_back(NamedJson(figures));
  }
  const bool is_generated =
      header.positions == neuron::TracePositions::kGenerated;
  const Json json = {
      {"model", header.model_name},
      {"hash", fmt::format("{:016x}", header.model_hash)},
      {"num_layers", header.num_layers},
      {"num_neurons", header.num_neurons},
      {"num_experts", header.num_experts},
      {"unit_bytes", header.unit_bytes},
      {"positions", is_generated ? "generated" : "all"},
      {"prompts", report.totals.num_sequences},
      {"tokens", report.totals.num_tokens},
      {"generated", report.num_generated},
      {"fired", report.totals.num_fired},
      {"bytes", report.num_bytes},
      {"density", figure(profile.density())},
      {"skew", figure(profile.skew())},
      {"locality", OrNull(profile.locality())},
      {"hot_share", neuron::kHotShare},
      {"layers", is_empty ? Json::array() : UnitLayersJson(report.neurons)},
      {"reactivation",
       is_empty ? Json::array() : RecurrenceJson(report.neurons)},
      {"texts", TextsJson(report.texts)},
      {"named", std::move(named)},
      {"experts", is_empty ? Json(nullptr) : ExpertsJson(report)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace thermocline::cli
