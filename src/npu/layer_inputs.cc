#include "npu/layer_inputs.h"

#include <utility>

#include "base/check.h"
#include "npu/block.h"
#include "npu/layer_tensors.h"
#include "npu/packing.h"

namespace thermocline::npu {
namespace {

Packing SourcePacking(const MatrixSource& source, WeightForm form) {
  return PackingOf(form, source.view.dtype, source.is_transposed,
                   source.columns());
}

PackedTypes SourceTypes(const MatrixSource& source, WeightForm form) {
  return TypesOf(SourcePacking(source, form), source.rows(), source.columns());
}

size_t BytesOfTypes(const PackedTypes& types) {
  size_t num_bytes = NumBytes(types.weight);
  if (types.scale) num_bytes += NumBytes(*types.scale);
  if (types.zero) num_bytes += NumBytes(*types.zero);
  return num_bytes;
}

size_t CountInputs(const PackedTypes& types) {
  return 1 + size_t{types.scale.has_value()} + size_t{types.zero.has_value()};
}

void AddInputs(const LayerTensor& tensor, WeightForm form,
               std::vector<LayerInput>& inputs) {
  if (!tensor.is_matrix) {
    inputs.push_back(
        {tensor.name,
         {Element::kF32, {static_cast<int64_t>(tensor.source.columns())}}});
    return;
  }
  PackedTypes types = SourceTypes(tensor.source, form);
  inputs.push_back({"w_" + tensor.name, std::move(types.weight)});
  if (types.scale) {
    inputs.push_back({"s_" + tensor.name, *std::move(types.scale)});
  }
  if (types.zero) {
    inputs.push_back({"z_" + tensor.name, *std::move(types.zero)});
  }
}

// The worse of two.
void Note(double relative_error, std::string name, UnpackError* error) {
  if (error == nullptr || relative_error <= error->worst) return;
  error->worst = relative_error;
  error->worst_name = std::move(name);
}

// Those of a matrix that are in the caller's range; its weights are number
// `index`.
struct InputRange {
  size_t first;
  size_t last;
  std::span<std::byte* const> data;

  std::byte* at(size_t index) const {
    return index >= first && index < last ? data[index] : nullptr;
  }
};

Status UnpackMatrix(const LayerTensor& tensor, WeightForm form, size_t index,
                    const InputRange& range, const std::string& place,
                    UnpackError* error) {
  const PackedTypes types = SourceTypes(tensor.source, form);
  const size_t of_scale = index + 1;
  PackedMemory to = {.weight = range.at(index)};
  if (types.scale) to.scale = range.at(of_scale);
  if (types.zero) to.zero = range.at(of_scale + 1);
  if (to.weight == nullptr && to.scale == nullptr && to.zero == nullptr) {
    return {};
  }
  if (!tensor.source.view.in_memory()) {
    return Fail(ErrorCode::kInvalidArgument,
                "it is not in memory, but was left in its file");
  }
  double relative_error = 0.0;
  const bool measures = error != nullptr && to.weight != nullptr;
  TC_RETURN_IF_ERROR(PackMatrix(tensor.source,
                                SourcePacking(tensor.source, form), to,
                                measures ? &relative_error : nullptr));
  Note(relative_error, place, error);
  return {};
}

}  // namespace

Result<std::vector<LayerInput>> LayerInputs(const model::Model& model,
                                            size_t layer_idx, WeightForm form) {
  TC_CHECK(layer_idx < model.config().num_layers);
  TC_RETURN_IF_ERROR(CheckCanBuild(model));
  std::vector<LayerInput> inputs;
  for (const LayerTensor& tensor :
       TensorsOf(model, model.weights().layers[layer_idx], layer_idx)) {
    AddInputs(tensor, form, inputs);
  }
  return inputs;
}

Status UnpackLayer(const model::Model& model,
                   const model::LayerWeights& weights, size_t layer_idx,
                   WeightForm form, size_t first, size_t last,
                   std::span<std::byte* const> data, UnpackError* error) {
  TC_CHECK(last <= data.size());
  const InputRange range = {first, last, data};
  size_t index = 0;
  for (const LayerTensor& tensor : TensorsOf(model, weights, layer_idx)) {
    const std::string place =
        fmt::format("layer {}, {}", layer_idx, tensor.name);
    Status status;
    if (tensor.is_matrix) {
      status = UnpackMatrix(tensor, form, index, range, place, error);
      index += CountInputs(SourceTypes(tensor.source, form));
    } else {
      std::byte* to = range.at(index++);
      if (to != nullptr) status = CopyVector(tensor.source, to);
    }
    if (!status.has_value()) {
      return Annotate(fmt::format("{}: {}", model.file().path(), place),
                      status.error());
    }
  }
  return {};
}

MatrixBytes MatrixBytesOf(const TensorView& matrix, WeightForm form) {
  const PackedTypes types = SourceTypes({.view = matrix}, form);
  return {types.weight.element, BytesOfTypes(types)};
}

Result<Value> AddMatrix(Graph& graph, const TensorView& matrix, WeightForm form,
                        UnpackError* error) {
  const MatrixSource source = {.view = matrix};
  TC_CHECK(matrix.in_memory());
  const PackedTypes types = SourceTypes(source, form);
  // So that one constant does not move the bytes of another.
  graph.ReserveData(graph.data().size() + BytesOfTypes(types) +
                    4 * Graph::kAlignment);
  PackedValues values;
  PackedMemory to;
  const auto add = [&](const Type& type, std::byte** memory) {
    std::span<std::byte> bytes;
    const Value value = graph.Constant(type, &bytes);
    *memory = bytes.data();
    return value;
  };
  values.weight = add(types.weight, &to.weight);
  if (types.scale) values.scale = add(*types.scale, &to.scale);
  if (types.zero) values.zero = add(*types.zero, &to.zero);
  double relative_error = 0.0;
  const Packing packing = SourcePacking(source, form);
  TC_RETURN_IF_ERROR(PackMatrix(source, packing, to,
                                error != nullptr ? &relative_error : nullptr));
  Note(relative_error, fmt::format("[{}, {}]", source.rows(), source.columns()),
       error);
  NoteGroup(types.weight, graph);
  return AddUnpacked(graph, values);
}

}  // namespace thermocline::npu
