#include "engine/scratch.h"

#include <algorithm>

#include "base/check.h"
#include "base/remedy.h"

namespace thermocline::engine {
namespace {

using compute::Carver;

// Whether somebody writes or reads who was named in a layer: predictors without
// experts name neurons ahead of the FFN; observers want all of what experts do
// as well.
bool NeedsSets(const model::FfnSpec& spec, const ScratchShape& shape) {
  return shape.is_observed || (shape.is_sparse && spec.num_experts == 0);
}

void CarveSets(const model::Config& config, const ScratchShape& shape,
               Carver& carver, Scratch& scratch) {
  const auto batch = static_cast<uint64_t>(shape.batch);
  const size_t num_places = config.predictor.lookahead > 0 ? 2 : 1;
  scratch.sets.resize(config.layers.size());
  uint64_t most_neurons = 0;
  for (size_t place = 0; place < num_places; ++place) {
    const Carver start = carver;
    for (size_t i = place; i < config.layers.size(); i += num_places) {
      const model::FfnSpec& spec = config.layers[i].ffn;
      if (!NeedsSets(spec, shape)) continue;
      const size_t num_neurons = NumNeurons(spec);
      Carver own = start;
      scratch.sets[i] = {
          num_neurons,
          own.Take<uint64_t>(batch,
                             neuron::ActiveSets::WordsPerRow(num_neurons)),
          shape.is_observed};
      carver.Cover(own);
      most_neurons = std::max(most_neurons, num_neurons);
    }
  }
  if (!shape.is_observed) return;
  scratch.listed = carver.Take<uint32_t>(2, most_neurons);
  if (std::ranges::any_of(config.layers, &model::LayerSpec::parallel)) {
    scratch.stream = carver.TakeRows(batch, config.width);
  }
}

// The widest input of a product.
uint64_t WidestInput(const model::Config& config) {
  uint64_t widest = config.width;
  for (const model::LayerSpec& layer : config.layers) {
    const model::AttentionSpec& attention = layer.attention;
    widest = std::max(
        {widest, layer.ffn.width, attention.num_heads * attention.value_width});
  }
  return widest;
}

// The limits of model::Config keep products of its numbers far below 2^64.
Scratch Carve(const model::Config& config, const ScratchShape& shape,
              Carver& carver) {
  const auto batch = static_cast<uint64_t>(shape.batch);
  const size_t width = config.width;
  Scratch scratch;
  scratch.residual = carver.TakeRows(batch, width);
  scratch.normed = carver.TakeRows(batch, width);
  scratch.delta = carver.TakeRows(batch, width);
  for (const model::RopeConfig& rope : config.ropes) {
    const uint64_t num_pairs = rope.width / 2;
    scratch.ropes.push_back({.cos = carver.TakeRows(batch, num_pairs),
                             .sin = carver.TakeRows(batch, num_pairs)});
  }
  scratch.attention =
      CarveAttention(config, batch, static_cast<uint64_t>(shape.context),
                     shape.num_threads, carver);
  scratch.ffn = CarveFfn(config,
                         {.num_rows = batch,
                          .num_threads = shape.num_threads,
                          .isa = shape.isa,
                          .is_sparse = shape.is_sparse,
                          .is_recorded = shape.is_observed},
                         carver);
  CarveSets(config, shape, carver, scratch);
  scratch.products = compute::CarveProducts({.num_rows = batch,
                                             .widest = WidestInput(config),
                                             .num_threads = shape.num_threads,
                                             .isa = shape.isa},
                                            carver);
  return scratch;
}

}  // namespace

Result<uint64_t> ScratchBytes(const model::Config& config,
                              const ScratchShape& shape) {
  Carver carver(nullptr);
  Carve(config, shape, carver);
  if (carver.overflowed()) {
    return Fail(ErrorCode::kResourceExhausted, Advice{Remedy::kLessMemory},
                "activations of {} tokens over {} positions need more memory "
                "than can be addressed",
                shape.batch, shape.context);
  }
  return carver.used();
}

Scratch MakeScratch(const model::Config& config, const ScratchShape& shape,
                    std::byte* base) {
  Carver carver(base);
  Scratch scratch = Carve(config, shape, carver);
  TC_CHECK(!carver.overflowed());
  return scratch;
}

}  // namespace thermocline::engine
