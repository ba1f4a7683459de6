#include "engine/scratch.h"

#include <algorithm>

#include "base/check.h"

namespace thermocline::engine {
namespace {

using compute::Carver;

// Predictors without experts name neurons ahead of the FFN; observers want all
// of what experts do as well.
void CarveSets(const model::Config& config, const ScratchShape& shape,
               Carver& carver, Scratch& scratch) {
  scratch.num_sets = config.predictor.lookahead > 0 ? 2 : 1;
  const bool is_needed =
      shape.is_observed || (shape.is_sparse && config.ffn.num_experts == 0);
  if (!is_needed) return;
  const auto num_neurons = static_cast<uint64_t>(NeuronsPerLayer(config));
  for (size_t i = 0; i < scratch.num_sets; ++i) {
    scratch.sets[i] = {
        num_neurons,
        carver.Take<uint64_t>(static_cast<uint64_t>(shape.batch),
                              neuron::ActiveSets::WordsPerRow(num_neurons)),
        shape.is_observed};
  }
  if (!shape.is_observed) return;
  scratch.listed = carver.Take<uint32_t>(2, num_neurons);
  if (config.parallel_block) {
    scratch.stream = carver.TakeRows(static_cast<uint64_t>(shape.batch),
                                     static_cast<uint64_t>(config.width));
  }
}

// The limits of model::Config keep products of its numbers far below 2^64.
Scratch Carve(const model::Config& config, const ScratchShape& shape,
              Carver& carver) {
  const auto batch = static_cast<uint64_t>(shape.batch);
  const auto width = static_cast<uint64_t>(config.width);
  const uint64_t num_pairs = static_cast<uint64_t>(config.rope.width) / 2;
  Scratch scratch;
  scratch.residual = carver.TakeRows(batch, width);
  scratch.normed = carver.TakeRows(batch, width);
  scratch.delta = carver.TakeRows(batch, width);
  scratch.rope_cos = carver.TakeRows(batch, num_pairs);
  scratch.rope_sin = carver.TakeRows(batch, num_pairs);
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
  const auto attended = static_cast<uint64_t>(config.num_heads) *
                        static_cast<uint64_t>(config.value_width);
  scratch.products = compute::CarveProducts(
      {.num_rows = batch,
       .widest =
           std::max({width, attended, static_cast<uint64_t>(config.ffn_width)}),
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
    return Fail(ErrorCode::kResourceExhausted,
                "activations of {} tokens over {} positions need more memory "
                "than can be addressed: use a smaller context (-c)",
                shape.batch, shape.context);
  }
  return carver.used();
}

Scratch MakeScratch(const model::Config& config, const ScratchShape& shape,
                    std::byte* base) {
  Carver carver(base);
  const Scratch scratch = Carve(config, shape, carver);
  TC_CHECK(!carver.overflowed());
  return scratch;
}

}  // namespace thermocline::engine
