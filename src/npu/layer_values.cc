#include "npu/layer_values.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "npu/packing.h"
#include "os/thread_pool.h"

namespace thermocline::npu {
namespace {

// The inputs of a layer, and where the bytes of its constants are.
struct LayerConstants {
  std::vector<LayerInput> inputs;
  std::vector<std::byte*> data;
};

size_t ConstantBytes(const std::vector<LayerConstants>& layers) {
  size_t sum = 0;
  for (const LayerConstants& layer : layers) {
    for (const LayerInput& input : layer.inputs) {
      sum += NumBytes(input.type) + Graph::kAlignment;
    }
  }
  return sum;
}

// A vector, or a matrix with its scales and zero points.
struct UnpackTask {
  size_t layer;  // of the spec's
  size_t first;
  size_t last;
};

std::vector<UnpackTask> ListTasks(const std::vector<LayerConstants>& layers) {
  std::vector<UnpackTask> tasks;
  for (size_t l = 0; l < layers.size(); ++l) {
    for (size_t i = 0; i < layers[l].inputs.size(); ++i) {
      const std::string& name = layers[l].inputs[i].name;
      if (name.starts_with("s_") || name.starts_with("z_")) {
        tasks.back().last = i + 1;
      } else {
        tasks.push_back({l, i, i + 1});
      }
    }
  }
  return tasks;
}

Status UnpackAll(const model::Model& model, const BlockSpec& spec,
                 const std::vector<LayerConstants>& layers,
                 UnpackError* error) {
  const std::vector<UnpackTask> tasks = ListTasks(layers);
  std::vector<Status> statuses(tasks.size());
  std::vector<UnpackError> errors(tasks.size());
  const auto unpack = [&](size_t begin, size_t end, int /*worker_idx*/) {
    for (size_t i = begin; i < end; ++i) {
      const UnpackTask& task = tasks[i];
      const size_t layer_idx = spec.first_layer + task.layer;
      statuses[i] = UnpackLayer(model, model.weights().layers[layer_idx],
                                layer_idx, spec.weights, task.first, task.last,
                                layers[task.layer].data,
                                error != nullptr ? &errors[i] : nullptr);
    }
  };
  TC_ASSIGN_OR_RETURN(
      const auto pool,
      os::ThreadPool::Create({.num_threads = static_cast<int>(
                                  std::max<size_t>(spec.num_threads, 1)),
                              .pin = false}));
  pool->ParallelFor(tasks.size(), 1, unpack);
  for (size_t i = 0; i < tasks.size(); ++i) {
    TC_RETURN_IF_ERROR(statuses[i]);
    if (error != nullptr && errors[i].worst > error->worst) *error = errors[i];
  }
  return {};
}

LayerValues AddParameters(const std::vector<LayerInput>& inputs, Graph& graph) {
  LayerValues values;
  for (const LayerInput& input : inputs) {
    if (input.name.starts_with("w_")) NoteGroup(input.type, graph);
    values.Set(input.name, graph.Parameter(input.name, input.type));
  }
  return values;
}

}  // namespace

std::optional<Value> LayerValues::Find(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

Value LayerValues::At(std::string_view name) const {
  const std::optional<Value> found = Find(name);
  TC_CHECK(found.has_value());
  return *found;
}

Value LayerValues::Multiply(Graph& graph, Value x,
                            const std::string& name) const {
  const Value matrix = AddUnpacked(graph, {.weight = At("w_" + name),
                                           .scale = Find("s_" + name),
                                           .zero = Find("z_" + name)});
  const Value product = graph.MatMul(x, matrix, true);
  const std::optional<Value> bias = Find("b_" + name);
  return bias ? graph.Binary(Op::kAdd, product, *bias) : product;
}

Result<std::vector<LayerValues>> AddLayerValues(const model::Model& model,
                                                const BlockSpec& spec,
                                                size_t more_bytes, Graph& graph,
                                                UnpackError* error) {
  std::vector<LayerConstants> layers(spec.num_layers);
  for (size_t l = 0; l < layers.size(); ++l) {
    TC_ASSIGN_OR_RETURN(layers[l].inputs,
                        LayerInputs(model, spec.first_layer + l, spec.weights));
  }
  if (spec.weights_are_inputs) {
    return std::vector<LayerValues>{AddParameters(layers[0].inputs, graph)};
  }
  // So that one constant does not move the bytes of another.
  graph.ReserveData(graph.data().size() + ConstantBytes(layers) + more_bytes);
  std::vector<LayerValues> values(layers.size());
  for (size_t l = 0; l < layers.size(); ++l) {
    for (const LayerInput& input : layers[l].inputs) {
      std::span<std::byte> bytes;
      values[l].Set(input.name, graph.Constant(input.type, &bytes));
      layers[l].data.push_back(bytes.data());
      if (input.name.starts_with("w_")) NoteGroup(input.type, graph);
    }
  }
  TC_RETURN_IF_ERROR(UnpackAll(model, spec, layers, error));
  return values;
}

}  // namespace thermocline::npu
