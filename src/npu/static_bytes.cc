// How much memory a static model takes, before there is one.
#include <algorithm>
#include <limits>

#include "base/math.h"
#include "npu/chunk_plan.h"
#include "npu/graph.h"
#include "npu/layer_feed.h"
#include "npu/layer_inputs.h"
#include "npu/static_kv.h"
#include "npu/static_memory.h"
#include "npu/static_model.h"

namespace thermocline::npu {
namespace {

// Of an element in the widest form, F16; those in fewer bits have scales, but
// are less with them.
constexpr uint64_t kMostWeightBytes = 2;
// Of a row: scale, zero point, bias, the row of a norm.
constexpr uint64_t kMostRowBytes = 16;
// Each tensor begins at a multiple of Graph::kAlignment.
constexpr uint64_t kMostLayerTensors = 40;

uint64_t MostLayerBytes(const model::Config& config,
                        const model::LayerSpec& layer) {
  const model::AttentionSpec& attention = layer.attention;
  const uint64_t width = config.width;
  const uint64_t q_rows = attention.num_heads * attention.key_width;
  const uint64_t kv_rows =
      attention.num_kv_heads * (attention.key_width + attention.value_width);
  const uint64_t out_width = attention.num_heads * attention.value_width;
  const uint64_t ffn_rows = layer.ffn.width * (layer.ffn.gated ? 2 : 1);
  // q, k, v, out, gate and up, down.
  const uint64_t num_elems =
      (q_rows + kv_rows + out_width + ffn_rows + uint64_t{layer.ffn.width}) *
      width;
  const uint64_t num_rows = q_rows + kv_rows + ffn_rows + 8 * width;
  return kMostWeightBytes * num_elems + kMostRowBytes * num_rows +
         kMostLayerTensors * Graph::kAlignment;
}

// Seen on OpenVINO's CPU beside the constants themselves.
double PackedShare(Element element) {
  return element == Element::kF16 || element == Element::kF32 ? 3.0 : 1.3;
}

}  // namespace

Result<uint64_t> StaticBytes(const model::Config& config,
                             const StaticOptions& options) {
  StaticOptions listed = options;
  if (listed.contexts.empty()) {
    listed.contexts = ContextsFor(listed.context, listed.rows);
  }
  TC_RETURN_IF_ERROR(CheckShapes({listed.rows, listed.contexts}));
  uint64_t sum = StaticMemory::NumBytes(config, listed);
  const auto add = [&](uint64_t num_bytes) {
    sum = CheckedAdd(sum, num_bytes)
              .value_or(std::numeric_limits<uint64_t>::max());
  };
  // Forms that give back all of it have a second one to write to, and numbers
  // of positions.
  const bool is_whole = options.kv != KvForm::kAppend;
  for (int i = 0; i < (is_whole ? 2 : 1); ++i) {
    add(StaticKvBytes(config, listed.contexts.back()));
  }
  if (is_whole) {
    add(static_cast<uint64_t>(listed.rows.back()) * sizeof(int64_t));
  }
  if (!options.weights_are_inputs) return sum;
  uint64_t most = 0;
  for (const model::LayerSpec& layer : config.layers) {
    most = std::max(most, MostLayerBytes(config, layer));
  }
  add(WeightSlots::kCount * most);
  return sum;
}

uint64_t RoughDeviceBytes(const model::Model& model,
                          const StaticOptions& options) {
  if (options.weights_are_inputs) return 0;
  double sum = 0.0;
  for (size_t i = 0; i < model.config().layers.size(); ++i) {
    const auto inputs = LayerInputs(model, i, options.weights);
    if (!inputs.has_value()) return 0;
    for (const LayerInput& input : *inputs) {
      sum += static_cast<double>(NumBytes(input.type)) *
             PackedShare(input.type.element);
    }
  }
  return static_cast<uint64_t>(sum);
}

}  // namespace thermocline::npu
