#include "engine/attention/attention_scratch.h"

#include <algorithm>

#include "base/math.h"
#include "kernels/kernels.h"

namespace thermocline::engine {
namespace {

// The limits of model::Config keep products of its numbers far below 2^64.
AttentionScratch CarveLayer(const model::AttentionSpec& spec, uint64_t num_rows,
                            uint64_t context, int num_threads,
                            compute::Carver& carver) {
  const size_t num_heads = spec.num_heads;
  const size_t num_kv_heads = spec.num_kv_heads;
  const size_t k_width = spec.key_width;
  const size_t v_width = spec.value_width;
  const auto num_workers = static_cast<uint64_t>(num_threads);
  const uint64_t partial = kernels::PartialAttentionFloats(v_width);
  AttentionScratch scratch;
  scratch.q = carver.TakeRows(num_rows, num_heads * k_width);
  scratch.k = carver.TakeRows(num_rows, num_kv_heads * k_width);
  scratch.v = carver.TakeRows(num_rows, num_kv_heads * v_width);
  scratch.attended = carver.TakeRows(num_rows, num_heads * v_width);
  scratch.work = carver.TakeRows(
      num_workers, kernels::AttentionScratchFloats(k_width, v_width));
  scratch.sums =
      carver.TakeRows(num_workers, 2 * kernels::kAttentionQueries * partial);
  // Unlike what a configuration says, the context is not limited.
  const uint64_t num_pieces =
      CeilDiv<uint64_t>(context, kernels::kAttentionPiece);
  const uint64_t num_queries =
      std::min<uint64_t>(num_rows, AttentionScratch::kSplitRows) * num_heads;
  scratch.partials = carver.TakeRows(
      CheckedMul(num_queries, num_pieces).value_or(UINT64_MAX), partial);
  return scratch;
}

}  // namespace

std::vector<AttentionScratch> CarveAttention(const model::Config& config,
                                             uint64_t num_rows,
                                             uint64_t context, int num_threads,
                                             compute::Carver& carver) {
  const compute::Carver start = carver;
  std::vector<AttentionScratch> layers;
  layers.reserve(config.layers.size());
  for (const model::LayerSpec& layer : config.layers) {
    compute::Carver own = start;
    layers.push_back(
        CarveLayer(layer.attention, num_rows, context, num_threads, own));
    carver.Cover(own);
  }
  return layers;
}

}  // namespace thermocline::engine
