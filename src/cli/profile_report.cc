#include "cli/profile_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/quote.h"
#include "base/units.h"
#include "neuron/json_values.h"

namespace thermocline::cli {
namespace {

using Json = nlohmann::ordered_json;
using neuron::LayerProfile;

constexpr size_t kCdfPoints = 101;  // in JSON: one per percent

double InPercent(double share) { return 100.0 * share; }

std::string TextOr(const std::string& text, const std::string& fallback) {
  return text.empty() ? fallback : Escape(text);
}

Json LayerJson(const LayerProfile& layer, size_t layer_idx) {
  return {{"layer", layer_idx},
          {"density", layer.density()},
          {"density_deviation", layer.density_deviation()},
          {"skew", layer.skew()},
          {"never_fired", layer.never_fired()},
          {"locality", OrNull(layer.locality())},
          {"chance_locality", layer.chance_locality()},
          {"cdf", layer.Cdf(kCdfPoints)}};
}

template <typename Figure>
double MeanOf(const neuron::Profile& profile, Figure figure) {
  double sum = 0.0;
  for (const LayerProfile& layer : profile.layers) sum += (layer.*figure)();
  return profile.layers.empty()
             ? 0.0
             : sum / static_cast<double>(profile.layers.size());
}

}  // namespace

std::string DescribeProfile(const model::ProfileFile& file) {
  const model::ModelFingerprint& model = file.model;
  const std::string neurons =
      model.num_experts > 0
          ? fmt::format("{} of {}", Plural(model.num_experts, "expert"),
                        Plural(model.ffn_width, "neuron"))
          : Plural(model.ffn_width, "neuron");
  return fmt::format("{} ({}, {} of {}): {} of {}, {} at a time",
                     TextOr(model.name, "a model"), Escape(model.architecture),
                     Plural(model.num_layers, "layer"), neurons,
                     Plural(file.profile.num_tokens(), "token"),
                     TextOr(file.corpus, "a text"), file.context);
}

std::string FormatLayerTable(const neuron::Profile& profile) {
  std::string out =
      "layer  density %  +/-    80 % by %  never %  locality %  by chance %\n";
  const auto row = [&](const std::string& name, double density,
                       double deviation, double skew, double never,
                       std::optional<double> locality, double chance) {
    out += fmt::format(
        "{:>5}  {:>9.2f}  {:<5.2f}  {:>9.2f}  {:>7.2f}  {:>10}  {:>11.2f}\n",
        name, InPercent(density), InPercent(deviation), InPercent(skew),
        InPercent(never),
        locality ? fmt::format("{:.2f}", InPercent(*locality)) : "-",
        InPercent(chance));
  };
  for (size_t l = 0; l < profile.layers.size(); ++l) {
    const LayerProfile& layer = profile.layers[l];
    row(fmt::format("{}", l), layer.density(), layer.density_deviation(),
        layer.skew(), layer.never_fired(), layer.locality(),
        layer.chance_locality());
  }
  row("mean", profile.density(),
      MeanOf(profile, &LayerProfile::density_deviation), profile.skew(),
      MeanOf(profile, &LayerProfile::never_fired), profile.locality(),
      MeanOf(profile, &LayerProfile::chance_locality));
  return out;
}

std::string FormatProfile(const model::ProfileFile& file) {
  const neuron::Profile& profile = file.profile;
  std::string out = DescribeProfile(file) + "\n\n" + FormatLayerTable(profile);
  out += fmt::format(
      "\nOf {} per layer a token fires {:.2f} %; {:.2f} % of them make "
      "80 % of all\nactivations.",
      Plural(profile.layers.empty() ? 0 : profile.layers.front().num_neurons(),
             "neuron"),
      InPercent(profile.density()), InPercent(profile.skew()));
  if (const std::optional<double> locality = profile.locality()) {
    out += fmt::format(
        " Of those that fire, {:.2f} % have fired for the token before too.",
        InPercent(*locality));
  }
  return out + "\n";
}

std::string FormatProfileJson(const model::ProfileFile& file) {
  const model::ModelFingerprint& model = file.model;
  const neuron::Profile& profile = file.profile;
  Json layers = Json::array();
  for (size_t l = 0; l < profile.layers.size(); ++l) {
    layers.push_back(LayerJson(profile.layers[l], l));
  }
  const Json json = {
      {"model", model.name},
      {"architecture", model.architecture},
      {"hash", fmt::format("{:016x}", model.hash)},
      {"num_layers", model.num_layers},
      {"num_neurons", model.ffn_width},
      {"num_experts", model.num_experts},
      {"corpus", file.corpus},
      {"tokens", profile.num_tokens()},
      {"context", file.context},
      {"density", profile.density()},
      {"skew", profile.skew()},
      {"never_fired", MeanOf(profile, &LayerProfile::never_fired)},
      {"locality", OrNull(profile.locality())},
      {"layers", std::move(layers)}};
  // Names come from files: what is not UTF-8 is replaced, not thrown at.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace thermocline::cli
