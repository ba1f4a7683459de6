#include "npu/static_steps.h"

#include <algorithm>
#include <tuple>

namespace thermocline::npu {
namespace {

auto ShapeOf(const model::LayerSpec& layer) {
  const model::AttentionSpec& attention = layer.attention;
  const model::FfnSpec& ffn = layer.ffn;
  return std::tuple(attention.num_heads, attention.num_kv_heads,
                    attention.key_width, attention.value_width, attention.rope,
                    attention.qk_norm, ffn.activation, ffn.threshold, ffn.gated,
                    ffn.width, layer.parallel);
}

bool AreSame(const std::vector<LayerInput>& a,
             const std::vector<LayerInput>& b) {
  return std::ranges::equal(a, b, [](const LayerInput& x, const LayerInput& y) {
    return x.name == y.name && x.type == y.type;
  });
}

}  // namespace

std::vector<Step> MakeSteps(
    const model::Config& config, const StaticOptions& options,
    const std::vector<std::vector<LayerInput>>& inputs) {
  std::vector<Step> steps;
  const size_t num_layers = config.layers.size();
  if (!options.weights_are_inputs) {
    const size_t most = options.layers_per_program == 0
                            ? num_layers
                            : options.layers_per_program;
    for (size_t first = 0; first < num_layers; first += most) {
      steps.push_back({.first_layer = first,
                       .num_layers = std::min(most, num_layers - first),
                       .program_of = first});
    }
    return steps;
  }
  for (size_t i = 0; i < num_layers; ++i) {
    size_t like = 0;
    while (like < i &&
           (ShapeOf(config.layers[like]) != ShapeOf(config.layers[i]) ||
            !AreSame(inputs[like], inputs[i]))) {
      ++like;
    }
    steps.push_back({.first_layer = i, .program_of = like});
  }
  return steps;
}

}  // namespace thermocline::npu
