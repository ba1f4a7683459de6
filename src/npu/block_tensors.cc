// Which tensors the graphs of block.h have.
#include "npu/block.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/quote.h"

namespace thermocline::npu {
namespace {

using NamedTypes = std::map<std::string, Type>;

struct GraphTensors {
  NamedTypes parameters;
  NamedTypes results;
};

int64_t Extent(size_t count) { return static_cast<int64_t>(count); }

void AddCaches(const model::AttentionSpec& attention, size_t layer_idx,
               const BlockSpec& spec, GraphTensors& tensors) {
  if (spec.kv == KvForm::kStateful) return;
  const bool is_append = spec.kv == KvForm::kAppend;
  const auto rows_of = [&](int64_t rows, size_t width) {
    return Type{Element::kF16,
                {1, rows, Extent(attention.num_kv_heads), Extent(width)}};
  };
  const auto add = [&](const char* what, size_t width) {
    const Type past =
        rows_of(is_append ? spec.context - spec.rows : spec.context, width);
    const std::string suffix = fmt::format("{}_{}", what, layer_idx);
    tensors.parameters["cache_" + suffix] = past;
    if (is_append) {
      tensors.results["new_" + suffix] = rows_of(spec.rows, width);
    } else {
      tensors.results[fmt::format("cache_{}_out", suffix)] = past;
    }
  };
  add("k", attention.key_width);
  add("v", attention.value_width);
}

Type Floats(Dims dims) { return {Element::kF32, std::move(dims)}; }

Type Stream(const model::Config& config, int64_t rows) {
  return Floats({1, rows, Extent(config.width)});
}

GraphTensors TensorsOfBlocks(const model::Config& config,
                             const BlockSpec& spec) {
  GraphTensors tensors;
  tensors.parameters["x"] = Stream(config, spec.rows);
  tensors.results["y"] = Stream(config, spec.rows);
  tensors.parameters["mask"] = Floats({1, 1, spec.rows, spec.context});
  if (spec.kv == KvForm::kScatter) {
    tensors.parameters["positions"] = {Element::kI64, {spec.rows}};
  }
  for (size_t i = 0; i < spec.num_layers; ++i) {
    const size_t layer_idx = spec.first_layer + i;
    const model::AttentionSpec& attention = config.layers[layer_idx].attention;
    AddCaches(attention, layer_idx, spec, tensors);
    if (spec.shows_opened) {
      tensors.results["opened"] = {
          Element::kF16,
          {1, spec.rows, Extent(config.layers[layer_idx].ffn.width)}};
    }
    if (attention.rope == model::AttentionSpec::kNoRope) continue;
    const model::RopeConfig& rope =
        config.ropes[static_cast<size_t>(attention.rope)];
    const Type angles = Floats({1, 1, spec.rows, Extent(rope.width / 2)});
    tensors.parameters["rope_cos"] = angles;
    tensors.parameters["rope_sin"] = angles;
  }
  return tensors;
}

Status CheckSame(std::string_view kind, const NamedTypes& expected,
                 NamedTypes found) {
  for (const auto& [name, type] : expected) {
    const auto at = found.find(name);
    if (at == found.end()) {
      return Fail(ErrorCode::kCorrupt, "it has no {} '{}'", kind, name);
    }
    if (at->second != type) {
      return Fail(ErrorCode::kCorrupt, "its {} '{}' is {}, not {}", kind, name,
                  ToString(at->second), ToString(type));
    }
    found.erase(at);
  }
  if (found.empty()) return {};
  return Fail(ErrorCode::kCorrupt, "it has a {} {}, which no such graph has",
              kind, Quote(found.begin()->first));
}

Status CheckGraph(const Graph& graph, const GraphTensors& expected) {
  GraphTensors found;
  for (const Node* node : graph.parameters()) {
    found.parameters[node->name] = node->outputs[0];
  }
  for (const Node* node : graph.results()) {
    found.results[node->name] = graph.type(node->inputs[0]);
  }
  TC_RETURN_IF_ERROR(
      CheckSame("parameter", expected.parameters, std::move(found.parameters)));
  return CheckSame("result", expected.results, std::move(found.results));
}

}  // namespace

Status CheckBlocks(const model::Config& config, const BlockSpec& spec,
                   const Graph& graph) {
  TC_CHECK(!spec.weights_are_inputs);
  return CheckGraph(graph, TensorsOfBlocks(config, spec));
}

Status CheckHead(const model::Config& config, int64_t rows,
                 const Graph& graph) {
  return CheckGraph(
      graph,
      {.parameters = {{"x", Stream(config, rows)}},
       .results = {{"logits", Floats({1, rows, Extent(config.vocab_size)})}}});
}

}  // namespace thermocline::npu
