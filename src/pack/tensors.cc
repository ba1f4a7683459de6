#include "pack/tensors.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/math.h"
#include "model/prepared_names.h"
#include "model/profile_file.h"

namespace thermocline::pack {
namespace {

namespace prepared = model::prepared;

template <typename T>
std::span<const std::byte> BytesIn(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

// Gathers the tensors of one layer.
class LayerTensors {
 public:
  LayerTensors(size_t layer_idx, std::vector<PartTensor>& tensors)
      : layer_idx_(layer_idx), tensors_(tensors) {}

  void AddMatrix(const std::string& name, const EncodedMatrix& matrix) {
    if (matrix.empty()) return;
    Add(name, matrix.dtype, {matrix.num_columns, matrix.num_rows},
        matrix.bytes);
  }
  template <typename T>
  void AddVector(const std::string& name, DType dtype,
                 const std::vector<T>& values) {
    if (values.empty()) return;
    Add(name, dtype, {values.size()}, BytesIn(values));
  }
  void AddSets(const std::string& name,
               const std::vector<std::vector<uint32_t>>& sets,
               uint64_t num_neurons);
  void Add(const std::string& name, DType dtype, std::vector<uint64_t> ne,
           std::span<const std::byte> bytes) {
    Shape shape = {.rank = static_cast<int>(ne.size())};
    std::ranges::copy(ne, shape.ne.begin());
    tensors_.push_back({.name = prepared::OfLayer(layer_idx_, name),
                        .dtype = dtype,
                        .shape = shape,
                        .bytes = bytes,
                        .own_bytes = {}});
  }

 private:
  size_t layer_idx_;
  std::vector<PartTensor>& tensors_;
};

void LayerTensors::AddSets(const std::string& name,
                           const std::vector<std::vector<uint32_t>>& sets,
                           uint64_t num_neurons) {
  if (sets.empty()) return;
  const uint64_t set_bytes = CeilDiv(num_neurons, uint64_t{8});
  std::vector<std::byte> bits(set_bytes * sets.size());
  for (size_t i = 0; i < sets.size(); ++i) {
    for (const uint32_t neuron : sets[i]) {
      bits[i * set_bytes + neuron / 8] |= std::byte{1} << (neuron % 8);
    }
  }
  Add(name, DType::kI8, {set_bytes, sets.size()}, {});
  tensors_.back().own_bytes = std::move(bits);
}

void AddPredictor(const LayerPredictor& predictor, LayerTensors& layer) {
  const std::string up = prepared::kPredictorUp;
  const std::string down = prepared::kPredictorDown;
  layer.AddMatrix(up + ".weight", predictor.up);
  layer.AddVector(up + ".bias", DType::kF32, predictor.up_bias);
  layer.AddMatrix(down + ".weight", predictor.down);
  layer.AddVector(down + ".bias", DType::kF32, predictor.down_bias);
}

void AddTrainingFree(const LayerTrainingFree& free, uint64_t num_neurons,
                     LayerTensors& layer) {
  const uint64_t row_bytes = free.signs.size() / num_neurons * sizeof(uint64_t);
  layer.Add(prepared::kFreeSigns, DType::kI8, {row_bytes, num_neurons},
            BytesIn(free.signs));
  layer.AddMatrix(prepared::kFreeUp, free.up);
  layer.AddMatrix(prepared::kFreeDown, free.down);
  layer.AddVector(prepared::kFreeBias, DType::kF32, free.bias);
}

void AddSelfTest(const LayerSelfTest& test, const model::Config& config,
                 LayerTensors& layer) {
  const size_t num_neurons = NeuronsPerLayer(config);
  const size_t width = config.width;
  layer.Add(prepared::kTestInputs, DType::kF32,
            {width, test.inputs.size() / width}, BytesIn(test.inputs));
  layer.AddSets(prepared::kTestFired, test.fired, num_neurons);
  layer.AddSets(prepared::kTestCandidates, test.candidates, num_neurons);
  layer.AddSets(prepared::kTestFree, test.free, num_neurons);
}

Status AddPerLayer(const std::string& key, gguf::ValueType type,
                   std::vector<int64_t> values, gguf::Writer& writer) {
  return writer.AddArray(key, {.elem_type = type, .values = std::move(values)});
}

Status AddTrainingFreeKeys(const PreparedParts& parts, gguf::Writer& writer) {
  if (parts.training_free.empty()) return {};
  std::vector<int64_t> limits;
  for (const auto& free : parts.training_free) {
    limits.push_back(free ? static_cast<int64_t>(free->max_differences) : 0);
  }
  return AddPerLayer(prepared::kMaxDifferences, gguf::ValueType::kI64,
                     std::move(limits), writer);
}

}  // namespace

std::vector<PartTensor> TensorsOf(const PreparedParts& parts,
                                  const model::Config& config) {
  const size_t num_neurons = NeuronsPerLayer(config);
  std::vector<PartTensor> tensors;
  for (size_t i = 0; i < config.num_layers; ++i) {
    LayerTensors layer(i, tensors);
    if (!parts.predictors.empty() && parts.predictors[i]) {
      AddPredictor(*parts.predictors[i], layer);
    }
    if (!parts.training_free.empty() && parts.training_free[i]) {
      AddTrainingFree(*parts.training_free[i], num_neurons, layer);
    }
    if (!parts.self_test.empty()) {
      AddSelfTest(parts.self_test[i], config, layer);
    }
    if (!parts.profile_counts.empty()) {
      layer.AddVector(prepared::kProfileCounts, DType::kI32,
                      parts.profile_counts[i]);
    }
    if (!parts.order.empty()) {
      layer.AddVector(prepared::kOrder, DType::kI32, parts.order[i]);
    }
  }
  return tensors;
}

std::vector<PartTensor> TensorsOfNumbers(
    const std::vector<std::vector<uint32_t>>& source_neurons) {
  std::vector<PartTensor> tensors;
  for (size_t i = 0; i < source_neurons.size(); ++i) {
    LayerTensors(i, tensors)
        .AddVector(prepared::kSourceNeurons, DType::kI32, source_neurons[i]);
  }
  return tensors;
}

Status AddPartKeys(const PreparedParts& parts, gguf::Writer& writer,
                   std::optional<uint64_t> model_hash) {
  using enum gguf::ValueType;
  TC_RETURN_IF_ERROR(
      writer.AddInt(prepared::kVersionKey, kU32, prepared::kVersion));
  if (parts.activation) {
    TC_RETURN_IF_ERROR(writer.AddString(
        prepared::kActivation, std::string(NameOf(*parts.activation))));
  }
  if (parts.ffn_threshold) {
    TC_RETURN_IF_ERROR(
        writer.AddFloat(prepared::kFfnThreshold, *parts.ffn_threshold));
  }
  if (!parts.predictors.empty()) {
    TC_RETURN_IF_ERROR(writer.AddInt(prepared::kLookahead, kU32,
                                     static_cast<int64_t>(parts.lookahead)));
  }
  TC_RETURN_IF_ERROR(AddTrainingFreeKeys(parts, writer));
  if (!parts.thresholds.empty()) {
    TC_RETURN_IF_ERROR(writer.AddArray(
        prepared::kThresholds,
        {.elem_type = kF32,
         .values = std::vector<double>(parts.thresholds.begin(),
                                       parts.thresholds.end())}));
  }
  if (!parts.order.empty()) {
    TC_RETURN_IF_ERROR(
        writer.AddInt(prepared::kOrderGroupSize, kU32, parts.order_group_size));
  }
  for (gguf::KeyValue kv : parts.keys) {
    if (model_hash) model::SetModelHash(*model_hash, kv);
    TC_RETURN_IF_ERROR(writer.AddKeyValue(kv));
  }
  return {};
}

}  // namespace thermocline::pack
