// How much memory a static model takes, before there is one.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/math.h"
#include "base/units.h"
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

// use(element, bytes) for each tensor of weights of the layers and the head.
template <typename Use>
void ForEachWeight(const model::Model& model, const StaticOptions& options,
                   const Use& use) {
  for (size_t i = 0; i < model.config().layers.size(); ++i) {
    const auto inputs = LayerInputs(model, i, options.weights);
    if (!inputs.has_value()) return;  // a model that no graph is made of
    for (const LayerInput& input : *inputs) {
      use(input.type.element, NumBytes(input.type));
    }
  }
  if (!options.has_head) return;
  const MatrixBytes head = MatrixBytesOf(model.weights().head, options.weights);
  use(head.element, head.num_bytes);
  use(Element::kF32, model.config().width * sizeof(float));  // the norm
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
  ForEachWeight(model, options, [&](Element element, uint64_t num_bytes) {
    sum += static_cast<double>(num_bytes) * PackedShare(element);
  });
  return static_cast<uint64_t>(sum);
}

std::string DescribeDeviceBytes(const model::Model& model,
                                const StaticOptions& options) {
  const uint64_t num_bytes = RoughDeviceBytes(model, options);
  if (num_bytes == 0) return "";
  return fmt::format(", some {} of its own for each shape",
                     FormatBytes(num_bytes));
}

uint64_t TokenBytes(const model::Model& model, const StaticOptions& options,
                    int64_t length) {
  uint64_t sum = 0;
  ForEachWeight(model, options, [&](Element /*element*/, uint64_t num_bytes) {
    sum += num_bytes;
  });
  const StaticShapes shapes = {options.rows,
                               options.contexts.empty()
                                   ? ContextsFor(options.context, options.rows)
                                   : options.contexts};
  int64_t num_positions = shapes.most_context();
  if (options.kv == KvForm::kAppend) {
    const auto chunks = PlanChunks(shapes, length, 1);
    if (chunks.has_value()) num_positions = chunks->front().past();
  }
  for (size_t i = 0; i < model.config().layers.size(); ++i) {
    const KvWidths widths = KvWidthsOf(model.config(), i);
    sum += (widths.k + widths.v) * sizeof(uint16_t) *
           static_cast<uint64_t>(num_positions);
  }
  return sum;
}

}  // namespace thermocline::npu
