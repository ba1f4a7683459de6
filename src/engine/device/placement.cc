#include "engine/device/placement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/units.h"

namespace thermocline::engine {
namespace {

// How much of a model's parts of a kind there are on the device.
struct Share {
  size_t num_there = 0;
  size_t num_all = 0;

  int percent() const {
    const double share =
        static_cast<double>(num_there) / static_cast<double>(num_all);
    // Neither nothing nor all unless it is.
    const auto rounded = static_cast<int>(std::lround(100.0 * share));
    return num_there == num_all ? 100 : std::clamp(rounded, 1, 99);
  }
};

// Of what weights lie on the host; empty: of nothing.
std::string DescribeLink(const Placement& placement) {
  const auto num_layers = static_cast<size_t>(
      std::ranges::count(placement.layers, true, &LayerPlacement::over_link));
  const bool has_head = placement.head && placement.head_over_link;
  if (num_layers == 0 && !has_head) return "";
  std::string of = num_layers > 0 ? Plural(num_layers, "layer") : "";
  if (has_head) of += num_layers > 0 ? " and the head" : "the head";
  return fmt::format("; those of {} lie on the host, over the link", of);
}

}  // namespace

std::string Describe(const Placement& placement, const model::Config& config) {
  const size_t num_layers = config.num_layers;
  Share neurons, experts;
  size_t num_attention = 0, num_predictors = 0, num_matrices = 0;
  for (size_t i = 0; i < placement.layers.size(); ++i) {
    const LayerPlacement& layer = placement.layers[i];
    const model::FfnSpec& ffn = config.layers[i].ffn;
    num_attention += layer.attention;
    num_predictors += layer.predictor;
    num_matrices += layer.matrices;
    neurons.num_there += layer.resident.size();
    neurons.num_all += ffn.width;
    experts.num_there += layer.experts.size();
    experts.num_all += ffn.num_experts;
  }
  std::vector<std::string> parts;
  const auto add_layers = [&](const char* what, size_t count) {
    if (count == 0) return;
    parts.push_back(
        fmt::format("{} of {} of {} layers", what, count, num_layers));
  };
  const auto add_share = [&](const char* what, const Share& share) {
    if (share.num_there == 0) return;
    parts.push_back(fmt::format("{} % of the {}", share.percent(), what));
  };
  add_layers("attention", num_attention);
  add_layers("predictors", num_predictors);
  add_layers("FFNs", num_matrices);
  add_share("neurons", neurons);
  add_share("experts", experts);
  if (placement.head) parts.push_back("head");
  if (parts.empty()) return "nothing";
  return fmt::format("{}{}", fmt::join(parts, ", "), DescribeLink(placement));
}

}  // namespace thermocline::engine
