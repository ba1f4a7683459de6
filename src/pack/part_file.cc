#include "pack/part_file.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "base/quote.h"
#include "gguf/writer.h"
#include "model/predictor_weights.h"
#include "model/prepared_config.h"
#include "model/prepared_names.h"
#include "model/prepared_weights.h"
#include "model/profile_file.h"
#include "model/tensor_binder.h"
#include "pack/tensors.h"

namespace thermocline::pack {
namespace {

namespace prepared = model::prepared;

// The extents that parts are made for, as a file has them: any numbers.
struct Extents {
  int64_t num_layers = 0;
  int64_t width = 0;
  int64_t num_neurons = 0;
  bool operator==(const Extents&) const = default;
};

Extents ExtentsOf(const model::Config& config) {
  return {static_cast<int64_t>(config.num_layers),
          static_cast<int64_t>(config.width),
          static_cast<int64_t>(NeuronsPerLayer(config))};
}

Result<int64_t> RequireInt(const gguf::File& file, const char* key) {
  TC_ASSIGN_OR_RETURN(const auto value, file.Int(key));
  if (value) return *value;
  return Fail(ErrorCode::kCorrupt, "{}: key \"{}\" is missing", file.path(),
              key);
}

Result<Extents> ReadExtents(const gguf::File& file) {
  Extents extents;
  TC_ASSIGN_OR_RETURN(const auto type, file.String("general.type"));
  if (type == prepared::kPartsType) {
    TC_ASSIGN_OR_RETURN(extents.num_layers,
                        RequireInt(file, prepared::kPartsLayers));
    TC_ASSIGN_OR_RETURN(extents.width, RequireInt(file, prepared::kPartsWidth));
    TC_ASSIGN_OR_RETURN(extents.num_neurons,
                        RequireInt(file, prepared::kPartsNeurons));
    return extents;
  }
  TC_ASSIGN_OR_RETURN(const auto config, model::ReadConfig(file));
  TC_RETURN_IF_ERROR(
      CheckEqualWidths(config, file.path() + ": what 'prepare' finds"));
  return ExtentsOf(config);
}

Status CheckFits(const gguf::File& file, const model::Config& config) {
  TC_ASSIGN_OR_RETURN(const int64_t version, model::ReadPreparedVersion(file));
  if (version == 0) {
    return Fail(ErrorCode::kUnsupported,
                "{}: neither a prepared model nor predictors of `thermocline "
                "train`: key \"{}\" is missing",
                file.path(), prepared::kVersionKey);
  }
  TC_RETURN_IF_ERROR(
      CheckEqualWidths(config, file.path() + ": what 'prepare' finds"));
  TC_ASSIGN_OR_RETURN(const Extents found, ReadExtents(file));
  const Extents wanted = ExtentsOf(config);
  if (found == wanted) return {};
  return Fail(ErrorCode::kCorrupt,
              "{}: made for a model of {} layers, width {} and {} neurons per "
              "layer; this one has {}, {} and {}",
              file.path(), found.num_layers, found.width, found.num_neurons,
              wanted.num_layers, wanted.width, wanted.num_neurons);
}

EncodedMatrix CopyMatrix(const TensorView& view) {
  if (!view) return {};
  return {.dtype = view.dtype,
          .num_rows = view.shape.num_rows(),
          .num_columns = view.shape.ne[0],
          .bytes = {view.data, view.data + view.num_bytes()}};
}

template <typename T>
std::vector<T> CopyValues(const TensorView& view) {
  if (!view) return {};
  std::vector<T> values(view.num_bytes() / sizeof(T));
  std::memcpy(values.data(), view.data, view.num_bytes());
  return values;
}

std::vector<std::vector<uint32_t>> CopySets(const TensorView& view) {
  std::vector<std::vector<uint32_t>> sets;
  if (!view) return sets;
  for (uint64_t i = 0; i < view.shape.num_rows(); ++i) {
    std::vector<uint32_t>& set = sets.emplace_back();
    const auto num_bits = static_cast<uint32_t>(view.shape.ne[0] * 8);
    for (uint32_t bit = 0; bit < num_bits; ++bit) {
      const std::byte byte = view.row(i)[bit / 8];
      if ((byte >> (bit % 8) & std::byte{1}) != std::byte{0}) {
        set.push_back(bit);
      }
    }
  }
  return sets;
}

// Of a layer that may lack what others have.
struct LayerParts {
  std::optional<LayerPredictor> predictor;
  std::optional<LayerTrainingFree> free;
  LayerSelfTest self_test;
  std::vector<uint32_t> counts;
  std::vector<uint32_t> order;
};

LayerParts CopyLayer(const model::LayerWeights& layer) {
  LayerParts parts;
  if (const model::PredictorWeights& p = layer.predictor; p.up) {
    parts.predictor = {.up = CopyMatrix(p.up),
                       .up_bias = CopyValues<float>(p.up_bias),
                       .down = CopyMatrix(p.down),
                       .down_bias = CopyValues<float>(p.down_bias)};
  }
  if (const model::TrainingFreeWeights& f = layer.training_free; f.signs) {
    parts.free = {.signs = CopyValues<uint64_t>(f.signs),
                  .max_differences = f.max_differences,
                  .up = CopyMatrix(f.up),
                  .down = CopyMatrix(f.down),
                  .bias = CopyValues<float>(f.bias)};
  }
  parts.self_test = {.inputs = CopyValues<float>(layer.self_test.inputs),
                     .fired = CopySets(layer.self_test.fired),
                     .candidates = CopySets(layer.self_test.candidates),
                     .free = CopySets(layer.self_test.free)};
  parts.counts = CopyValues<uint32_t>(layer.profile_counts);
  parts.order = CopyValues<uint32_t>(layer.order);
  return parts;
}

// What the file has of one layer, copied. `config` describes the file.
Result<LayerParts> ReadLayer(model::TensorBinder& binder,
                             const model::Config& config, size_t layer_idx) {
  model::LayerWeights layer;
  TC_RETURN_IF_ERROR(model::BindPrepared(binder, config, layer_idx, layer));
  if (config.predictor.kind == model::PredictorKind::kThermocline) {
    TC_ASSIGN_OR_RETURN(layer.predictor,
                        model::BindPredictor(binder, config, layer_idx));
  }
  return CopyLayer(layer);
}

// Parts that only some layers may have become empty if none has them; the
// others are there in all layers or in none.
Status CheckComplete(const gguf::File& file, const char* what, size_t count,
                     size_t num_layers) {
  if (count == 0 || count == num_layers) return {};
  return Fail(ErrorCode::kCorrupt,
              "{}: tensors \"blk.N.{}\" are there for {} of {} layers",
              file.path(), what, count, num_layers);
}

template <typename T>
bool HasAny(const std::vector<std::optional<T>>& layers) {
  return std::ranges::any_of(layers,
                             [](const auto& layer) { return bool{layer}; });
}

Status ReadLayers(const gguf::File& file, const model::Config& config,
                  PreparedParts& parts) {
  model::TensorBinder binder(file);
  for (size_t i = 0; i < config.num_layers; ++i) {
    TC_ASSIGN_OR_RETURN(LayerParts layer, ReadLayer(binder, config, i));
    parts.predictors.push_back(std::move(layer.predictor));
    parts.training_free.push_back(std::move(layer.free));
    if (!layer.self_test.inputs.empty()) {
      parts.self_test.push_back(std::move(layer.self_test));
    }
    if (!layer.counts.empty()) {
      parts.profile_counts.push_back(std::move(layer.counts));
    }
    if (!layer.order.empty()) parts.order.push_back(std::move(layer.order));
  }
  if (!HasAny(parts.predictors)) parts.predictors.clear();
  if (!HasAny(parts.training_free)) parts.training_free.clear();
  TC_RETURN_IF_ERROR(CheckComplete(file, prepared::kTestInputs,
                                   parts.self_test.size(), config.num_layers));
  TC_RETURN_IF_ERROR(CheckComplete(file, prepared::kProfileCounts,
                                   parts.profile_counts.size(),
                                   config.num_layers));
  return CheckComplete(file, prepared::kOrder, parts.order.size(),
                       config.num_layers);
}

Status ReadActivation(const gguf::File& file, PreparedParts& parts) {
  TC_ASSIGN_OR_RETURN(const auto name, file.String(prepared::kActivation));
  if (name) {
    parts.activation = ParseActivation(*name);
    if (!parts.activation) {
      return Fail(ErrorCode::kUnsupported, "{}: key \"{}\" is {}", file.path(),
                  prepared::kActivation, Quote(*name));
    }
  }
  TC_ASSIGN_OR_RETURN(const auto threshold,
                      file.Float(prepared::kFfnThreshold));
  if (threshold) parts.ffn_threshold = static_cast<float>(*threshold);
  return {};
}

// Everything under our prefix that has no place elsewhere.
void CopyKeys(const gguf::File& file, PreparedParts& parts) {
  const PreparedParts none;
  for (const gguf::KeyValue& kv : file.metadata()) {
    const std::string_view key = kv.key;
    if (!key.starts_with("thermocline.")) continue;
    if (key == prepared::kActivation || key == prepared::kFfnThreshold)
      continue;
    if (IsFigureKey(key) || !IsPartKey(none, key)) {
      parts.keys.push_back(kv);
    }
  }
}

}  // namespace

Result<PreparedParts> ReadParts(const gguf::File& file,
                                const model::Config& config) {
  TC_RETURN_IF_ERROR(CheckFits(file, config));
  model::Config own = config;
  own.predictor = {};
  own.thresholds.clear();
  own.records.clear();
  TC_RETURN_IF_ERROR(model::ReadPrepared(file, own));
  PreparedParts parts;
  parts.thresholds = own.thresholds;
  parts.lookahead = own.predictor.lookahead;
  TC_RETURN_IF_ERROR(ReadLayers(file, own, parts));
  TC_ASSIGN_OR_RETURN(const auto group_size,
                      file.Int(prepared::kOrderGroupSize));
  if (group_size) parts.order_group_size = *group_size;
  TC_RETURN_IF_ERROR(ReadActivation(file, parts));
  CopyKeys(file, parts);
  // What a file says has to hold what we write.
  const Status checked = CheckParts(parts, config);
  if (!checked) {
    return Fail(ErrorCode::kCorrupt, "{}: {}", file.path(),
                checked.error().message);
  }
  return parts;
}

Status CheckPartsAreOf(const model::Model& model, const gguf::File& file) {
  TC_ASSIGN_OR_RETURN(const auto fingerprint,
                      model::ReadModelFingerprint(file));
  if (!fingerprint) return {};
  return model::CheckSameModel(*fingerprint, model, file.path() + ": was made");
}

Status WriteParts(const PreparedParts& parts, const model::Config& config,
                  const std::string& path) {
  using enum gguf::ValueType;
  TC_RETURN_IF_ERROR(CheckParts(parts, config));
  TC_ASSIGN_OR_RETURN(const auto writer, gguf::Writer::Create(path));
  TC_RETURN_IF_ERROR(writer->AddString("general.type", prepared::kPartsType));
  TC_RETURN_IF_ERROR(
      writer->AddString("general.architecture", config.architecture));
  if (!config.name.empty()) {
    TC_RETURN_IF_ERROR(writer->AddString("general.name", config.name));
  }
  const Extents extents = ExtentsOf(config);
  TC_RETURN_IF_ERROR(
      writer->AddInt(prepared::kPartsLayers, kU32, extents.num_layers));
  TC_RETURN_IF_ERROR(
      writer->AddInt(prepared::kPartsWidth, kU32, extents.width));
  TC_RETURN_IF_ERROR(
      writer->AddInt(prepared::kPartsNeurons, kU64, extents.num_neurons));
  TC_RETURN_IF_ERROR(AddPartKeys(parts, *writer));
  const std::vector<PartTensor> tensors = TensorsOf(parts, config);
  for (const PartTensor& tensor : tensors) {
    TC_RETURN_IF_ERROR(
        writer->DeclareTensor(tensor.name, tensor.dtype, tensor.shape));
  }
  TC_RETURN_IF_ERROR(writer->Start());
  for (const PartTensor& tensor : tensors) {
    TC_RETURN_IF_ERROR(writer->WriteTensorData(tensor.data()));
  }
  return writer->Finish();
}

}  // namespace thermocline::pack
