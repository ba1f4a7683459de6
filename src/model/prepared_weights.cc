#include "model/prepared_weights.h"

#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/math.h"
#include "base/permutation.h"
#include "base/quote.h"
#include "model/bundle.h"
#include "model/prepared_config.h"
#include "model/prepared_names.h"
#include "neuron/record.h"

namespace thermocline::model {
namespace {

using enum Need;

// What a tensor of numbers holds; element i may lie anywhere.
template <typename T>
T ElementAt(const TensorView& view, uint64_t i) {
  T value;
  std::memcpy(&value, view.data + i * sizeof(T), sizeof(T));
  return value;
}

tl::unexpected<Error> WrongTensor(const TensorBinder& binder,
                                  const std::string& name,
                                  std::string_view what) {
  return Fail(ErrorCode::kCorrupt, "{}: tensor \"{}\" {}", binder.file().path(),
              name, what);
}

const FfnSpec& FfnOf(const Config& config, size_t layer_idx) {
  return config.layers[layer_idx].ffn;
}

size_t RowsOf(const TensorBinder& binder, const std::string& name) {
  const gguf::TensorInfo* info = binder.file().FindTensor(name);
  return info == nullptr ? 0 : info->shape.num_rows();
}

// Step 2 of the training-free predictor: nothing, or all of it but for the
// bias, which may be missing.
Status BindTrainingFreeMargin(TensorBinder& binder, const Config& config,
                              size_t layer_idx, TrainingFreeWeights& free) {
  const std::string up = prepared::OfLayer(layer_idx, prepared::kFreeUp);
  const std::string down = prepared::OfLayer(layer_idx, prepared::kFreeDown);
  const std::string bias = prepared::OfLayer(layer_idx, prepared::kFreeBias);
  if (!binder.Has(up) && !binder.Has(down) && !binder.Has(bias)) return {};
  const size_t rank = RowsOf(binder, up);
  const FfnSpec& ffn = FfnOf(config, layer_idx);
  const size_t num_neurons = NumNeurons(ffn);
  if (rank > ffn.width) {
    return WrongTensor(binder, up,
                       fmt::format("has rank {}, more than an FFN has neurons, "
                                   "{}",
                                   rank, ffn.width));
  }
  TC_ASSIGN_OR_RETURN(free.up,
                      binder.TakeMatrix(up, rank, config.width, kRequired));
  TC_ASSIGN_OR_RETURN(free.down,
                      binder.TakeMatrix(down, num_neurons, rank, kRequired));
  TC_ASSIGN_OR_RETURN(free.bias,
                      binder.TakeVector(bias, num_neurons, kOptional));
  return {};
}

Status BindTrainingFree(TensorBinder& binder, const Config& config,
                        size_t layer_idx, TrainingFreeWeights& free) {
  const std::string name = prepared::OfLayer(layer_idx, prepared::kFreeSigns);
  if (!binder.Has(name)) return {};
  const size_t num_words = CeilDiv(config.width, size_t{64});
  TC_ASSIGN_OR_RETURN(
      free.signs,
      binder.TakeData(name, DType::kI8, NumNeurons(FfnOf(config, layer_idx)),
                      num_words * 8, kRequired));
  if (reinterpret_cast<uintptr_t>(free.signs.data) % alignof(uint64_t) != 0) {
    return Fail(ErrorCode::kUnsupported,
                "{}: tensor \"{}\" does not lie at a multiple of 8 bytes: the "
                "file was written with an unusual general.alignment",
                binder.file().path(), name);
  }
  TC_ASSIGN_OR_RETURN(const auto limits,
                      ExtentPerLayer(binder.file(), prepared::kMaxDifferences,
                                     config.num_layers, 0, config.width));
  if (!limits) {
    return Fail(ErrorCode::kCorrupt,
                "{}: key \"{}\" is missing: it belongs to tensor \"{}\"",
                binder.file().path(), prepared::kMaxDifferences, name);
  }
  free.max_differences = (*limits)[layer_idx];
  return BindTrainingFreeMargin(binder, config, layer_idx, free);
}

// Sets of neurons [S]: bits behind the last neuron are zero.
Result<TensorView> TakeSets(TensorBinder& binder, const FfnSpec& ffn,
                            const std::string& name, size_t num_samples,
                            Need need) {
  const size_t num_neurons = NumNeurons(ffn);
  const size_t num_bytes = CeilDiv(num_neurons, size_t{8});
  TC_ASSIGN_OR_RETURN(
      const TensorView sets,
      binder.TakeData(name, DType::kI8, num_samples, num_bytes, need));
  if (!sets || num_neurons % 8 == 0) return sets;
  for (uint64_t i = 0; i < sets.shape.num_rows(); ++i) {
    const auto last = std::to_integer<unsigned>(sets.row(i)[num_bytes - 1]);
    if (last >> (num_neurons % 8) == 0) continue;
    return WrongTensor(
        binder, name,
        fmt::format("names neurons past the last, {}", num_neurons - 1));
  }
  return sets;
}

Status BindSelfTest(TensorBinder& binder, const Config& config,
                    size_t layer_idx, SelfTest& test) {
  const std::string inputs =
      prepared::OfLayer(layer_idx, prepared::kTestInputs);
  if (!binder.Has(inputs)) return {};
  const size_t num_samples = RowsOf(binder, inputs);
  TC_ASSIGN_OR_RETURN(test.inputs,
                      binder.TakeData(inputs, DType::kF32, num_samples,
                                      config.width, kRequired));
  for (uint64_t i = 0; i < test.inputs.shape.num_elems(); ++i) {
    if (std::isfinite(ElementAt<float>(test.inputs, i))) continue;
    return WrongTensor(binder, inputs,
                       fmt::format("has a value that is not finite, element "
                                   "{} (a damaged file?)",
                                   i));
  }
  TC_ASSIGN_OR_RETURN(
      test.fired, TakeSets(binder, FfnOf(config, layer_idx),
                           prepared::OfLayer(layer_idx, prepared::kTestFired),
                           num_samples, kRequired));
  TC_ASSIGN_OR_RETURN(
      test.candidates,
      TakeSets(binder, FfnOf(config, layer_idx),
               prepared::OfLayer(layer_idx, prepared::kTestCandidates),
               num_samples, kOptional));
  TC_ASSIGN_OR_RETURN(
      test.free, TakeSets(binder, FfnOf(config, layer_idx),
                          prepared::OfLayer(layer_idx, prepared::kTestFree),
                          num_samples, kOptional));
  return {};
}

// A permutation of the neurons, checked here: whoever follows it indexes with
// it.
Result<TensorView> TakePermutation(TensorBinder& binder, const Config& config,
                                   size_t layer_idx, const char* what) {
  const std::string name = prepared::OfLayer(layer_idx, what);
  const size_t num_neurons = NumNeurons(FfnOf(config, layer_idx));
  TC_ASSIGN_OR_RETURN(
      const TensorView numbers,
      binder.TakeData(name, DType::kI32, 1, num_neurons, kOptional));
  if (!numbers) return numbers;
  const auto neuron_at = [&](size_t place) {
    return ElementAt<int32_t>(numbers, place);
  };
  const auto misplaced = FindMisplaced(num_neurons, num_neurons, neuron_at);
  if (!misplaced) return numbers;
  const int32_t neuron = neuron_at(*misplaced);
  if (neuron >= 0 && std::cmp_less(neuron, num_neurons)) {
    return WrongTensor(
        binder, name,
        fmt::format("is no permutation: {} occurs twice", neuron));
  }
  return WrongTensor(binder, name,
                     fmt::format("has neuron {} at place {}; 0 to {} are "
                                 "possible",
                                 neuron, *misplaced, num_neurons - 1));
}

// Gate rows that are not in the records.
Status BindGates(TensorBinder& binder, const Config& config, size_t layer_idx,
                 FfnWeights& ffn) {
  const FfnSpec& spec = FfnOf(config, layer_idx);
  if (ffn.experts.empty()) {
    TC_ASSIGN_OR_RETURN(
        ffn.gate,
        binder.TakeMatrix(prepared::OfLayer(layer_idx, prepared::kGates),
                          spec.width, config.width, kRequired));
    return {};
  }
  TC_ASSIGN_OR_RETURN(
      const auto gates,
      binder.TakeStack(prepared::OfLayer(layer_idx, prepared::kExpertGates),
                       spec.num_experts, spec.width, config.width));
  for (size_t i = 0; i < gates.size(); ++i) ffn.experts[i].gate = gates[i];
  return {};
}

}  // namespace

Status BindRecords(TensorBinder& binder, const Config& config, size_t layer_idx,
                   FfnWeights& ffn) {
  const auto& layout = config.records[layer_idx];
  const FfnSpec& spec = FfnOf(config, layer_idx);
  TC_ASSIGN_OR_RETURN(
      const TensorView records,
      binder.TakeData(prepared::OfLayer(layer_idx, prepared::kRecords),
                      DType::kI8, NumNeurons(spec), layout.stride, kRequired));
  if (spec.gated && !layout.gate) {
    TC_RETURN_IF_ERROR(BindGates(binder, config, layer_idx, ffn));
  }
  const size_t num_neurons = spec.width;
  if (ffn.experts.empty()) {
    UseRecords(layout, records.data, num_neurons, ffn);
    return {};
  }
  const size_t expert_bytes = num_neurons * layout.stride;
  for (size_t i = 0; i < ffn.experts.size(); ++i) {
    UseRecords(layout, records.data_from(i * expert_bytes), num_neurons,
               ffn.experts[i]);
  }
  return {};
}

Status BindPrepared(TensorBinder& binder, const Config& config,
                    size_t layer_idx, LayerWeights& layer) {
  if (config.prepared_version == 0) return {};
  TC_RETURN_IF_ERROR(
      BindTrainingFree(binder, config, layer_idx, layer.training_free));
  TC_RETURN_IF_ERROR(BindSelfTest(binder, config, layer_idx, layer.self_test));
  TC_ASSIGN_OR_RETURN(
      layer.profile_counts,
      binder.TakeData(prepared::OfLayer(layer_idx, prepared::kProfileCounts),
                      DType::kI32, 1, NumNeurons(FfnOf(config, layer_idx)),
                      kOptional));
  TC_ASSIGN_OR_RETURN(layer.order, TakePermutation(binder, config, layer_idx,
                                                   prepared::kOrder));
  TC_ASSIGN_OR_RETURN(
      layer.source_neurons,
      TakePermutation(binder, config, layer_idx, prepared::kSourceNeurons));
  return {};
}

Status CheckSampleCounts(const gguf::File& file,
                         std::span<const LayerWeights> layers) {
  const auto samples_of = [&](size_t i) {
    const TensorView& inputs = layers[i].self_test.inputs;
    return inputs ? inputs.shape.num_rows() : 0;
  };
  for (size_t i = 1; i < layers.size(); ++i) {
    if (samples_of(i) == samples_of(0)) continue;
    return Fail(ErrorCode::kCorrupt,
                "{}: layer {} has {} samples for the self-test, layer 0 has {}",
                file.path(), i, samples_of(i), samples_of(0));
  }
  return {};
}

Status CheckSourceNeurons(const gguf::File& file,
                          std::span<const LayerWeights> layers) {
  for (size_t i = 1; i < layers.size(); ++i) {
    const bool is_there{layers[i].source_neurons};
    if (is_there == bool{layers[0].source_neurons}) continue;
    const size_t lacks = is_there ? 0 : i;
    return Fail(ErrorCode::kCorrupt,
                "{}: tensor \"{}\" is missing, which other layers have",
                file.path(),
                prepared::OfLayer(lacks, prepared::kSourceNeurons));
  }
  return {};
}

}  // namespace thermocline::model
