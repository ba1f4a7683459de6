#include "engine/ffn/ffn_scratch.h"

#include <algorithm>

#include "engine/ffn/neuron_ffn.h"
#include "engine/ffn/neuron_pieces.h"
#include "engine/ffn/transposed_down.h"
#include "kernels/kernels.h"

namespace thermocline::engine {
namespace {

using compute::Carver;

ExpertScratch CarveExperts(const model::FfnSpec& spec, uint64_t width,
                           const FfnShape& shape, Carver& carver) {
  const size_t num_experts = spec.num_experts;
  const size_t num_used = spec.num_experts_used;
  const size_t num_neurons = spec.width;
  ExpertScratch experts;
  if (num_experts == 0) return experts;
  experts.shares = carver.TakeRows(shape.num_rows, num_experts);
  experts.weights = carver.TakeRows(shape.num_rows, num_used);
  experts.chosen = carver.Take<uint32_t>(shape.num_rows, num_used);
  experts.group_begin = carver.Take<size_t>(num_experts + 1, 1);
  experts.grouped = carver.Take<size_t>(shape.num_rows, num_used);
  experts.in = carver.TakeRows(shape.num_rows, width);
  experts.out = carver.TakeRows(shape.num_rows, width);
  if (shape.is_sparse || shape.is_recorded) {
    experts.sets = {
        num_neurons,
        carver.Take<uint64_t>(shape.num_rows,
                              neuron::ActiveSets::WordsPerRow(num_neurons)),
        shape.is_recorded};
  }
  if (shape.is_recorded) {
    experts.gates = carver.TakeRows(shape.num_rows, num_used * num_neurons);
  }
  return experts;
}

SparseScratch CarveSparse(uint64_t num_neurons, uint64_t width,
                          const FfnShape& shape, Carver& carver) {
  SparseScratch sparse;
  sparse.num_neurons = num_neurons;
  sparse.group = std::min<uint64_t>(shape.num_rows, kernels::kListedTokens);
  sparse.ids = carver.Take<uint32_t>(sparse.group, num_neurons);
  sparse.fired = carver.Take<uint32_t>(sparse.group, num_neurons);
  sparse.sums = carver.TakeRows(PieceSums::kMaxPieces * sparse.group, width);
  sparse.workers = carver.TakeBytes(static_cast<uint64_t>(shape.num_threads),
                                    NeuronFfn::WorkerBytes());
  sparse.union_words = carver.Take<uint64_t>(2, neuron::WordsOf(num_neurons));
  return sparse;
}

// For down matrices that lie transposed, where prompts are multiplied in
// batches (transposed_down.h).
void CarveTransposed(const model::Config& config, const model::FfnSpec& spec,
                     const FfnShape& shape, Carver& carver,
                     FfnScratch& scratch) {
  const bool has_down_t = !config.records.empty() || spec.down_is_transposed;
  if (has_down_t && kernels::KernelsFor(shape.isa).batch) {
    scratch.transposed_bytes = TransposedBytes(spec.width);
  }
  scratch.transposed = carver.TakeBytes(
      static_cast<uint64_t>(shape.num_threads), scratch.transposed_bytes);
}

// Records are computed neuron by neuron in every mode, and so is what a device
// has a part of: neurons of a down matrix that is there only transposed.
bool IsByNeurons(const model::Config& config, const model::FfnSpec& spec,
                 const FfnShape& shape) {
  return shape.is_sparse || !config.records.empty() || spec.down_is_transposed;
}

// The limits of model::Config keep products of its numbers far below 2^64.
FfnScratch CarveLayer(const model::Config& config, const model::FfnSpec& spec,
                      const FfnShape& shape, Carver& carver) {
  const size_t num_neurons = spec.width;
  const size_t width = config.width;
  FfnScratch scratch;
  if (spec.gated || shape.is_sparse || shape.is_recorded) {
    scratch.gate = carver.TakeRows(shape.num_rows, num_neurons);
  }
  scratch.up = carver.TakeRows(shape.num_rows, num_neurons);
  scratch.experts = CarveExperts(spec, width, shape, carver);
  if (IsByNeurons(config, spec, shape)) {
    scratch.sparse = CarveSparse(num_neurons, width, shape, carver);
  }
  if (shape.is_sparse) {
    scratch.selector = predictor::CarveSelectors(shape.num_rows, width,
                                                 shape.num_threads, carver);
    scratch.selector.hidden = scratch.gate;
    scratch.selector.scores = scratch.up;
  }
  CarveTransposed(config, spec, shape, carver, scratch);
  return scratch;
}

}  // namespace

std::vector<FfnScratch> CarveFfn(const model::Config& config,
                                 const FfnShape& shape, Carver& carver) {
  uint32_t* all_ids = nullptr;
  const bool any_by_neurons =
      std::ranges::any_of(config.layers, [&](const model::LayerSpec& layer) {
        return IsByNeurons(config, layer.ffn, shape);
      });
  if (any_by_neurons) {
    all_ids = carver.Take<uint32_t>(1, model::MaxFfnWidth(config));
  }
  const Carver start = carver;
  std::vector<FfnScratch> layers;
  layers.reserve(config.layers.size());
  for (const model::LayerSpec& layer : config.layers) {
    Carver own = start;
    layers.push_back(CarveLayer(config, layer.ffn, shape, own));
    layers.back().sparse.all_ids = all_ids;
    carver.Cover(own);
  }
  return layers;
}

}  // namespace thermocline::engine
