#include "npu/block.h"

#include <cmath>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "npu/layer_nodes.h"
#include "npu/layer_tensors.h"
#include "npu/layer_values.h"

namespace thermocline::npu {
namespace {

// Constants of shapes and the like, of one layer, and of a graph.
constexpr size_t kSmallBytes = size_t{64} << 10;

// What all layers read besides weights and caches.
struct SharedInputs {
  Value mask;
  std::optional<Value> cos;  // [1, T, 1, n / 2]
  std::optional<Value> sin;
  std::optional<Value> positions;
};

// One layer; its caches are called `number`.
class LayerBuilder {
 public:
  LayerBuilder(const model::Config& config, const BlockSpec& spec,
               size_t layer_idx, size_t number, const LayerValues& weights,
               const SharedInputs& shared, Graph& graph)
      : config_(config),
        block_(spec),
        layer_(config.layers[layer_idx]),
        heads_(static_cast<int64_t>(layer_.attention.num_heads)),
        kv_heads_(static_cast<int64_t>(layer_.attention.num_kv_heads)),
        key_width_(static_cast<int64_t>(layer_.attention.key_width)),
        value_width_(static_cast<int64_t>(layer_.attention.value_width)),
        number_(std::to_string(number)),
        weights_(weights),
        shared_(shared),
        graph_(graph) {}

  Value Build(Value x) {
    const Value attended = Add(x, Attention(Norm(x, "attn")));
    const Value ffn_input = Norm(layer_.parallel ? x : attended, "ffn");
    return Add(attended, Ffn(ffn_input));
  }

 private:
  Value Add(Value a, Value b) { return graph_.Binary(Op::kAdd, a, b); }
  Value Times(Value a, Value b) { return graph_.Binary(Op::kMultiply, a, b); }
  Value Multiply(Value x, const char* name) {
    return weights_.Multiply(graph_, x, name);
  }
  Value Reshape(Value x, Dims dims) {
    return graph_.type(x).dims == dims ? x : graph_.Reshape(x, std::move(dims));
  }
  // Exchanges positions and heads.
  Value SwapHeads(Value x) { return graph_.Transpose(x, {0, 2, 1, 3}); }

  Value Norm(Value x, const std::string& name) {
    return AddNorm(graph_, config_.norm, config_.norm_epsilon, x,
                   weights_.At("n_" + name), weights_.Find("nb_" + name));
  }
  Value Heads(Value x, const char* name, int64_t num_heads);
  Value Attention(Value x);
  Value Attend(Value q, Value keys, Value values);
  Value Cached(Value rows, const char* name);
  Value Rolled(Value cache, Value rows);
  Value CacheParameter(const std::string& name, const Dims& rows);
  Value Ffn(Value x);
  Value Activate(Value x) {
    const Value opened = AddActivated(graph_, layer_.ffn, x);
    if (block_.shows_opened) {
      graph_.Output(graph_.Convert(opened, Element::kF16), "opened");
    }
    return opened;
  }

  const model::Config& config_;
  const BlockSpec& block_;
  const model::LayerSpec& layer_;
  int64_t heads_;
  int64_t kv_heads_;
  int64_t key_width_;
  int64_t value_width_;
  std::string number_;
  const LayerValues& weights_;
  const SharedInputs& shared_;
  Graph& graph_;
};

// q or k: [1, T, heads, K], normed and rotated.
Value LayerBuilder::Heads(Value x, const char* name, int64_t num_heads) {
  Value heads = graph_.Reshape(Multiply(x, name),
                               {1, block_.rows, num_heads, key_width_});
  const std::optional<Value> norm = weights_.Find(std::string("n_") + name);
  if (norm) {
    heads = AddNorm(graph_, NormKind::kRms, config_.norm_epsilon, heads, *norm,
                    std::nullopt);
  }
  if (layer_.attention.rope == model::AttentionSpec::kNoRope) return heads;
  return AddRotated(graph_, heads, *shared_.cos, *shared_.sin);
}

Value LayerBuilder::Attention(Value x) {
  const Value q = Heads(x, "q", heads_);
  const Value k = Heads(x, "k", kv_heads_);
  const Value v = graph_.Reshape(Multiply(x, "v"),
                                 {1, block_.rows, kv_heads_, value_width_});
  const Value keys = Cached(graph_.Convert(k, Element::kF16), "k");
  const Value values = Cached(graph_.Convert(v, Element::kF16), "v");
  return Multiply(Attend(q, keys, values), "o");
}

// Heads that share keys become rows of these: no key is repeated.
Value LayerBuilder::Attend(Value q, Value keys, Value values) {
  const int64_t rows = block_.rows;
  const int64_t context = graph_.type(keys).dims[1];
  const int64_t group_rows = heads_ / kv_heads_ * rows;
  const float scale = 1.0f / std::sqrt(static_cast<float>(key_width_));
  const auto as_floats = [&](Value cache) {
    return graph_.Convert(SwapHeads(cache), Element::kF32);
  };
  q = Reshape(SwapHeads(Times(q, graph_.Scalar(scale))),
              {1, kv_heads_, group_rows, key_width_});
  Value scores = graph_.MatMul(q, as_floats(keys), true);
  scores = Add(Reshape(scores, {1, heads_, rows, context}), shared_.mask);
  const Value shares =
      Reshape(graph_.Softmax(scores, -1), {1, kv_heads_, group_rows, context});
  Value sums = graph_.MatMul(shares, as_floats(values), false);
  sums = SwapHeads(Reshape(sums, {1, heads_, rows, value_width_}));
  return graph_.Reshape(sums, {1, rows, heads_ * value_width_});
}

Value LayerBuilder::CacheParameter(const std::string& name, const Dims& rows) {
  Dims dims = rows;
  dims[1] = block_.context;
  if (block_.kv == KvForm::kAppend) dims[1] -= block_.rows;
  return graph_.Parameter(name, {Element::kF16, std::move(dims)});
}

// What is attended to: the cache with the new rows, which are given out.
Value LayerBuilder::Cached(Value rows, const char* name) {
  const std::string suffix = std::string(name) + "_" + number_;
  const std::string cache_name = "cache_" + suffix;
  const Dims dims = graph_.type(rows).dims;
  switch (block_.kv) {
    case KvForm::kAppend:
      graph_.Output(rows, "new_" + suffix);
      return graph_.Concat({CacheParameter(cache_name, dims), rows}, 1);
    case KvForm::kScatter: {
      const Value all = graph_.ScatterUpdate(CacheParameter(cache_name, dims),
                                             *shared_.positions, rows, 1);
      graph_.Output(all, cache_name + "_out");
      return all;
    }
    case KvForm::kRoll: {
      const Value all = Rolled(CacheParameter(cache_name, dims), rows);
      graph_.Output(all, cache_name + "_out");
      return all;
    }
    case KvForm::kStateful:
      break;
  }
  Type type = {Element::kF16, dims};
  type.dims[1] = block_.context;
  std::span<std::byte> zeros;  // as new bytes of a graph are
  const Value before =
      graph_.ReadValue(graph_.Constant(std::move(type), &zeros), cache_name);
  const Value all = Rolled(before, rows);
  graph_.Assign(all, cache_name);
  return all;
}

// The oldest rows leave.
Value LayerBuilder::Rolled(Value cache, Value rows) {
  if (block_.context == block_.rows) return rows;
  const Value kept = graph_.Slice(cache, 1, block_.rows, block_.context);
  return graph_.Concat({kept, rows}, 1);
}

Value LayerBuilder::Ffn(Value x) {
  const Value up = Multiply(x, "up");
  if (!layer_.ffn.gated) return Multiply(Activate(up), "down");
  const bool is_drelu = layer_.ffn.activation == Activation::kDRelu;
  const Value gate = Activate(Multiply(x, "gate"));
  const Value hidden = Times(gate, is_drelu ? graph_.Unary(Op::kRelu, up) : up);
  return Multiply(hidden, "down");
}

bool Rotates(const model::LayerSpec& layer) {
  return layer.attention.rope != model::AttentionSpec::kNoRope;
}

std::span<const model::LayerSpec> LayersOf(const model::Model& model,
                                           const BlockSpec& spec) {
  return std::span(model.config().layers)
      .subspan(spec.first_layer, spec.num_layers);
}

SharedInputs AddSharedInputs(const model::Model& model, const BlockSpec& spec,
                             Graph& graph) {
  SharedInputs shared;
  shared.mask =
      graph.Parameter("mask", {Element::kF32, {1, 1, spec.rows, spec.context}});
  if (spec.kv == KvForm::kScatter) {
    shared.positions =
        graph.Parameter("positions", {Element::kI64, {spec.rows}});
  }
  const std::span<const model::LayerSpec> layers = LayersOf(model, spec);
  const auto rotating = std::ranges::find_if(layers, Rotates);
  if (rotating == layers.end()) return shared;
  const size_t rope = static_cast<size_t>(rotating->attention.rope);
  const auto half = static_cast<int64_t>(model.config().ropes[rope].width / 2);
  const auto add = [&](const char* name) {
    const Value given =
        graph.Parameter(name, {Element::kF32, {1, 1, spec.rows, half}});
    return graph.Reshape(given, {1, spec.rows, 1, half});
  };
  shared.cos = add("rope_cos");
  shared.sin = add("rope_sin");
  return shared;
}

Status CheckSpec(const model::Model& model, const BlockSpec& spec) {
  const size_t num_layers = model.config().num_layers;
  if (spec.num_layers == 0 || spec.first_layer >= num_layers ||
      spec.num_layers > num_layers - spec.first_layer ||
      ((spec.weights_are_inputs || spec.shows_opened) &&
       spec.num_layers != 1)) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: no graph of {} layers from layer {} on",
                model.file().path(), spec.num_layers, spec.first_layer);
  }
  const int64_t least = spec.kv == KvForm::kAppend ? spec.rows + 1 : spec.rows;
  if (spec.rows < 1 || spec.context < least) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: no graph of {} rows in a context of {}",
                model.file().path(), spec.rows, spec.context);
  }
  return {};
}

// Of initial states; other constants are small.
size_t StateBytes(const model::Model& model, const BlockSpec& spec) {
  if (spec.kv != KvForm::kStateful) return 0;
  size_t sum = 0;
  for (const model::LayerSpec& layer : LayersOf(model, spec)) {
    const model::AttentionSpec& a = layer.attention;
    sum += a.num_kv_heads * (a.key_width + a.value_width) * sizeof(uint16_t);
  }
  return sum * static_cast<size_t>(spec.context);
}

// Puts each head's key, where graphs have another order than the host, into the
// order that `move` gives.
template <typename Move>
void ForEachKey(const model::Config& config, size_t layer_idx, int64_t count,
                uint16_t* keys, const Move& move) {
  const std::vector<uint32_t> order = HeadOrder(config, layer_idx);
  if (order.empty()) return;
  std::vector<uint16_t> moved(order.size());
  const size_t num_keys = config.layers[layer_idx].attention.num_kv_heads *
                          static_cast<size_t>(count);
  for (size_t i = 0; i < num_keys; ++i, keys += order.size()) {
    move(order, keys, moved);
    std::ranges::copy(moved, keys);
  }
}

}  // namespace

Status CheckCanBuild(const model::Model& model) {
  const model::Config& config = model.config();
  std::optional<size_t> rotating;
  for (size_t i = 0; i < config.layers.size(); ++i) {
    const model::LayerSpec& layer = config.layers[i];
    if (layer.ffn.num_experts > 0) {
      return Fail(ErrorCode::kUnsupported,
                  "{}: layer {} is a mixture of {} experts, of which graphs "
                  "with static shapes are not made",
                  model.file().path(), i, layer.ffn.num_experts);
    }
    if (!Rotates(layer)) continue;
    if (!rotating) rotating = i;
    if (layer.attention.rope != config.layers[*rotating].attention.rope) {
      return Fail(ErrorCode::kUnsupported,
                  "{}: layers {} and {} rotate positions in different ways, of "
                  "which graphs with static shapes are not made",
                  model.file().path(), *rotating, i);
    }
  }
  return {};
}

Result<Graph> BuildBlocks(const model::Model& model, const BlockSpec& spec,
                          UnpackError* error) {
  TC_RETURN_IF_ERROR(CheckCanBuild(model));
  TC_RETURN_IF_ERROR(CheckSpec(model, spec));
  Graph graph;
  const size_t more_bytes =
      StateBytes(model, spec) + (spec.num_layers + 1) * kSmallBytes;
  TC_ASSIGN_OR_RETURN(const std::vector<LayerValues> weights,
                      AddLayerValues(model, spec, more_bytes, graph, error));
  const model::Config& config = model.config();
  const Type stream = {Element::kF32,
                       {1, spec.rows, static_cast<int64_t>(config.width)}};
  Value x = graph.Parameter("x", stream);
  const SharedInputs shared = AddSharedInputs(model, spec, graph);
  for (size_t i = 0; i < spec.num_layers; ++i) {
    const size_t layer_idx = spec.first_layer + i;
    const size_t number = spec.weights_are_inputs ? 0 : layer_idx;
    x = LayerBuilder(config, spec, layer_idx, number, weights[i], shared, graph)
            .Build(x);
  }
  graph.Output(x, "y");
  graph.title =
      fmt::format("{} layers {} to {}, {} rows of {}", config.architecture,
                  spec.first_layer, spec.first_layer + spec.num_layers - 1,
                  spec.rows, spec.context);
  return graph;
}

void ToHostOrder(const model::Config& config, size_t layer_idx, int64_t count,
                 uint16_t* keys) {
  ForEachKey(config, layer_idx, count, keys,
             [](const std::vector<uint32_t>& order, const uint16_t* key,
                std::vector<uint16_t>& moved) {
               for (size_t j = 0; j < order.size(); ++j) {
                 moved[order[j]] = key[j];
               }
             });
}

void ToGraphOrder(const model::Config& config, size_t layer_idx, int64_t count,
                  uint16_t* keys) {
  ForEachKey(config, layer_idx, count, keys,
             [](const std::vector<uint32_t>& order, const uint16_t* key,
                std::vector<uint16_t>& moved) {
               for (size_t j = 0; j < order.size(); ++j) {
                 moved[j] = key[order[j]];
               }
             });
}

}  // namespace thermocline::npu
