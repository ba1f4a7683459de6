#include "model/prepared_config.h"

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "base/quote.h"
#include "model/prepared_names.h"

namespace thermocline::model {
namespace {

template <typename V>
tl::unexpected<Error> WrongKey(const gguf::File& file, std::string_view key,
                               const V& value, std::string_view reason) {
  return Fail(ErrorCode::kCorrupt, "{}: key \"{}\" is {}; {}", file.path(), key,
              value, reason);
}

// The elements of an array key of one type; null: the key is absent.
template <typename T>
Result<const gguf::ElementsOf<T>*> ArrayOf(const gguf::File& file,
                                           std::string_view key,
                                           size_t num_elems,
                                           std::string_view what) {
  if (file.Find(key) == nullptr) return nullptr;
  const auto* values = file.Elements<T>(key);
  if (values != nullptr && values->size() == num_elems) return values;
  return Fail(ErrorCode::kCorrupt,
              "{}: key \"{}\" must be an array of {} {} (of another model?)",
              file.path(), key, num_elems, what);
}

// A sign of `prepare`, for files that lack its version.
bool LooksPrepared(const gguf::File& file) {
  for (const char* key :
       {prepared::kRecordStride, prepared::kRecordTypes, prepared::kLookahead,
        prepared::kThresholds, prepared::kMaxDifferences}) {
    if (file.Find(key) != nullptr) return true;
  }
  return file.FindTensor(prepared::OfLayer(0, prepared::kRecords)) != nullptr;
}

// Whether any layer brings this tensor.
bool HasInAnyLayer(const gguf::File& file, size_t num_layers,
                   const std::string& name) {
  for (size_t i = 0; i < num_layers; ++i) {
    if (file.FindTensor(prepared::OfLayer(i, name)) != nullptr) return true;
  }
  return false;
}

Status ReadPredictors(const gguf::File& file, Config& config) {
  config.has_training_free =
      HasInAnyLayer(file, config.num_layers, prepared::kFreeSigns);
  if (!HasInAnyLayer(file, config.num_layers,
                     std::string(prepared::kPredictorUp) + ".weight")) {
    return {};
  }
  TC_ASSIGN_OR_RETURN(const auto lookahead, file.Int(prepared::kLookahead));
  if (!lookahead) {
    return Fail(ErrorCode::kCorrupt,
                "{}: key \"{}\" is missing: it says which layer's input the "
                "predictors read",
                file.path(), prepared::kLookahead);
  }
  if (*lookahead < 0 || *lookahead > 1) {
    return WrongKey(file, prepared::kLookahead, *lookahead,
                    "0 and 1 are possible");
  }
  if (*lookahead > 0 && config.layers.front().ffn.num_experts > 0) {
    return WrongKey(file, prepared::kLookahead, *lookahead,
                    "which experts a layer will use is not known before it: "
                    "of a mixture 0 is possible");
  }
  config.predictor = {.kind = PredictorKind::kThermocline,
                      .lookahead = static_cast<size_t>(*lookahead)};
  return {};
}

Status ReadThresholds(const gguf::File& file, Config& config) {
  TC_ASSIGN_OR_RETURN(
      const auto* values,
      ArrayOf<double>(file, prepared::kThresholds, config.num_layers,
                      "numbers, one threshold per layer"));
  if (values == nullptr) return {};
  for (const double value : *values) {
    if (!(value >= 0 && value <= std::numeric_limits<float>::max())) {
      return Fail(ErrorCode::kCorrupt,
                  "{}: key \"{}\" has a threshold {}; it must be a finite "
                  "number >= 0",
                  file.path(), prepared::kThresholds, value);
    }
    config.thresholds.push_back(static_cast<float>(value));
  }
  return {};
}

Result<DType> ParsePart(const gguf::File& file, const std::string& name) {
  const auto dtype = ParseDType(name);
  if (dtype) return *dtype;
  return Fail(ErrorCode::kCorrupt,
              "{}: key \"{}\" has the unknown type {} (a damaged file?)",
              file.path(), prepared::kRecordTypes, Quote(name));
}

// One layer's; `types` are its elements of prepared::kRecordTypes.
Result<neuron::RecordLayout> ReadLayout(const gguf::File& file,
                                        const Config& config, bool gated,
                                        const std::string* types,
                                        size_t stride) {
  std::optional<DType> gate;
  if (gated) {
    const std::string& name = *types++;
    if (name != prepared::kGateIsMatrix) {
      TC_ASSIGN_OR_RETURN(gate, ParsePart(file, name));
    }
  }
  TC_ASSIGN_OR_RETURN(const DType up, ParsePart(file, types[0]));
  TC_ASSIGN_OR_RETURN(const DType down, ParsePart(file, types[1]));
  auto layout = neuron::MakeRecordLayout(gate, up, down, config.width);
  if (!layout) {
    return Fail(ErrorCode::kCorrupt, "{}: key \"{}\": {}", file.path(),
                prepared::kRecordTypes, layout.error().message);
  }
  if (stride < layout->stride || stride % neuron::kRecordAlignment != 0) {
    return WrongKey(
        file, prepared::kRecordStride, fmt::format("{} for a layer", stride),
        fmt::format("its records have {} bytes; a multiple of {} that holds "
                    "them is possible",
                    layout->used_bytes(), neuron::kRecordAlignment));
  }
  layout->stride = stride;
  return layout;
}

Status ReadRecords(const gguf::File& file, Config& config) {
  TC_ASSIGN_OR_RETURN(
      const auto strides,
      ExtentPerLayer(file, prepared::kRecordStride, config.num_layers, 1,
                     std::numeric_limits<int64_t>::max()));
  if (!strides) return {};
  const bool gated = config.layers.front().ffn.gated;
  const size_t parts_per_layer = gated ? 3 : 2;
  TC_ASSIGN_OR_RETURN(
      const auto* types,
      ArrayOf<std::string>(
          file, prepared::kRecordTypes, parts_per_layer * strides->size(),
          fmt::format("names of types, {} per layer", parts_per_layer)));
  if (types == nullptr) {
    return Fail(ErrorCode::kCorrupt, "{}: key \"{}\" is missing", file.path(),
                prepared::kRecordTypes);
  }
  for (size_t i = 0; i < strides->size(); ++i) {
    TC_ASSIGN_OR_RETURN(
        config.records.emplace_back(),
        ReadLayout(file, config, gated, &(*types)[i * parts_per_layer],
                   (*strides)[i]));
  }
  return {};
}

}  // namespace

Result<int64_t> ReadPreparedVersion(const gguf::File& file) {
  TC_ASSIGN_OR_RETURN(const auto version, file.Int(prepared::kVersionKey));
  if (!version) {
    if (!LooksPrepared(file)) return 0;
    return Fail(ErrorCode::kCorrupt,
                "{}: key \"{}\" is missing from a prepared file (did another "
                "program rewrite it?)",
                file.path(), prepared::kVersionKey);
  }
  if (*version < 1) {
    return WrongKey(file, prepared::kVersionKey, *version,
                    "it must be at least 1");
  }
  if (*version > prepared::kVersion) {
    return Fail(ErrorCode::kUnsupported,
                "{}: prepared by a newer version of this program (format {}; "
                "this one reads up to {}): update it, or prepare the model "
                "again",
                file.path(), *version, prepared::kVersion);
  }
  return *version;
}

Result<std::optional<std::vector<size_t>>> ExtentPerLayer(
    const gguf::File& file, std::string_view key, size_t num_layers, size_t low,
    size_t high) {
  TC_ASSIGN_OR_RETURN(
      const auto* values,
      ArrayOf<int64_t>(file, key, num_layers, "integers, one per layer"));
  if (values == nullptr) return std::nullopt;
  for (const int64_t value : *values) {
    if (std::cmp_greater_equal(value, low) &&
        std::cmp_less_equal(value, high)) {
      continue;
    }
    return WrongKey(file, key, fmt::format("{} for a layer", value),
                    fmt::format("{} to {} are possible", low, high));
  }
  return std::vector<size_t>(values->begin(), values->end());
}

Status ReadPrepared(const gguf::File& file, Config& config) {
  TC_ASSIGN_OR_RETURN(config.prepared_version, ReadPreparedVersion(file));
  if (config.prepared_version == 0) return {};
  TC_RETURN_IF_ERROR(ReadRecords(file, config));
  TC_RETURN_IF_ERROR(ReadPredictors(file, config));
  return ReadThresholds(file, config);
}

Status WriteRecordKeys(std::span<const neuron::RecordLayout> records,
                       bool gated, gguf::Writer& writer) {
  std::vector<std::string> types;
  std::vector<int64_t> strides;
  for (const neuron::RecordLayout& layout : records) {
    if (gated) {
      types.emplace_back(layout.gate ? NameOf(*layout.gate)
                                     : prepared::kGateIsMatrix);
    }
    types.emplace_back(NameOf(layout.up));
    types.emplace_back(NameOf(layout.down));
    strides.push_back(static_cast<int64_t>(layout.stride));
  }
  TC_RETURN_IF_ERROR(writer.AddArray(
      prepared::kRecordTypes,
      {.elem_type = gguf::ValueType::kString, .values = std::move(types)}));
  return writer.AddArray(
      prepared::kRecordStride,
      {.elem_type = gguf::ValueType::kU64, .values = std::move(strides)});
}

}  // namespace thermocline::model
