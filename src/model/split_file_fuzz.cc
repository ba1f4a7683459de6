// Any bytes as a split file: refused, or it holds what split_file.h promises.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "model/split_file.h"

namespace thermocline::model {
namespace {

void CheckOrder(const NeuronOrder& order, const Config& config) {
  TC_CHECK(order.group_size > 0 && MaxFfnWidth(config) % order.group_size == 0);
  TC_CHECK(std::cmp_equal(order.pattern.size(), config.num_layers));
  TC_CHECK(std::cmp_equal(order.layers.size(), config.num_layers));
  for (std::vector<uint32_t> layer : order.layers) {
    TC_CHECK(std::cmp_equal(layer.size(), MaxFfnWidth(config)));
    std::ranges::sort(layer);
    for (uint32_t i = 0; i < layer.size(); ++i) TC_CHECK(layer[i] == i);
  }
}

void CheckHot(const HotNeurons& hot, const Config& config) {
  TC_CHECK(std::cmp_equal(hot.layers.size(), config.num_layers));
  for (const std::vector<uint32_t>& layer : hot.layers) {
    TC_CHECK(std::ranges::adjacent_find(layer, std::greater_equal<>()) ==
             layer.end());
    TC_CHECK(layer.empty() || std::cmp_less(layer.back(), MaxFfnWidth(config)));
  }
}

}  // namespace
}  // namespace thermocline::model

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thermocline;
  const auto file =
      gguf::File::Parse(std::as_bytes(std::span(data, size)), "fuzz");
  if (!file) return 0;
  model::Config config;
  config.num_layers = 2;
  config.layers.assign(2, model::LayerSpec{.ffn = {.width = 8}});
  const auto split = model::ReadSplit(**file, config);
  if (!split) return 0;
  TC_CHECK(split->order.has_value() != split->hot.has_value());
  if (split->order) model::CheckOrder(*split->order, config);
  if (split->hot) model::CheckHot(*split->hot, config);
  return 0;
}
