#include "training/layer_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "base/permutation.h"
#include "pack/part_file.h"

namespace thermocline::training {
namespace {

constexpr char kFigures[] = "thermocline.work.figures";
constexpr char kRecallAhead[] = "thermocline.work.recall_ahead";
constexpr char kOrder[] = "thermocline.work.order";
constexpr char kReason[] = "thermocline.work.reason";
constexpr char kLayer[] = "thermocline.work.layer";

constexpr double kNoType = -1.0;
constexpr double kNoLocality = -1.0;

// Of one predictor, in a fixed order.
void AppendFigures(const PredictorFindings& findings,
                   std::vector<double>& out) {
  out.insert(out.end(),
             {static_cast<double>(findings.rank),
              findings.dtype ? static_cast<double>(*findings.dtype) : kNoType,
              static_cast<double>(findings.num_bytes), findings.recall,
              findings.precision, findings.candidates_per_fired});
}

constexpr size_t kFiguresPerPredictor = 6;
constexpr size_t kOrderFigures = 5 + 2 * kFiguresPerPredictor;  // where
constexpr size_t kNumFigures = kOrderFigures + 2;

std::vector<double> FiguresOf(const LayerFindings& findings) {
  std::vector<double> out = {findings.density, findings.skew,
                             findings.locality.value_or(kNoLocality),
                             static_cast<double>(findings.ffn_bytes),
                             findings.free_sign_candidates_per_fired};
  AppendFigures(findings.trained, out);
  AppendFigures(findings.free, out);
  out.insert(out.end(),
             {findings.fired_per_group, findings.fired_per_group_as_they_lie});
  return out;
}

bool AreFinite(const std::vector<double>& values) {
  return std::ranges::all_of(values, [](double x) { return std::isfinite(x); });
}

// Whether a number that stands for a count can be one.
bool IsCount(double value) { return value >= 0 && value < 0x1p53; }

bool ReadPredictor(const double* figures, PredictorFindings& out) {
  if (!IsCount(figures[0]) || !IsCount(figures[2])) return false;
  out.rank = static_cast<size_t>(figures[0]);
  out.num_bytes = static_cast<uint64_t>(figures[2]);
  out.recall = figures[3];
  out.precision = figures[4];
  out.candidates_per_fired = figures[5];
  if (figures[1] == kNoType) return true;
  if (!(figures[1] >= 0 && figures[1] < 256)) return false;
  const DTypeInfo* info = FindDType(static_cast<uint32_t>(figures[1]));
  if (info == nullptr) return false;
  out.dtype = info->dtype;
  return true;
}

// Requires kNumFigures.
bool ReadFigures(const std::vector<double>& figures, LayerFindings& out) {
  if (!AreFinite(figures) || !IsCount(figures[3])) return false;
  out.density = figures[0];
  out.skew = figures[1];
  if (figures[2] != kNoLocality) out.locality = figures[2];
  out.ffn_bytes = static_cast<uint64_t>(figures[3]);
  out.free_sign_candidates_per_fired = figures[4];
  out.fired_per_group = figures[kOrderFigures];
  out.fired_per_group_as_they_lie = figures[kOrderFigures + 1];
  return ReadPredictor(&figures[5], out.trained) &&
         ReadPredictor(&figures[5 + kFiguresPerPredictor], out.free);
}

gguf::KeyValue NeuronIds(const char* key,
                         const std::vector<uint32_t>& neurons) {
  return {.key = key,
          .type = gguf::ValueType::kArray,
          .value = gguf::Array{
              .elem_type = gguf::ValueType::kU32,
              .values = std::vector<int64_t>(neurons.begin(), neurons.end())}};
}

gguf::KeyValue Doubles(const char* key, std::vector<double> values) {
  return {.key = key,
          .type = gguf::ValueType::kArray,
          .value = gguf::Array{.elem_type = gguf::ValueType::kF64,
                               .values = std::move(values)}};
}

// Whether findings tell of that predictor.
bool IsOf(const PredictorFindings& findings, const auto& predictor) {
  return findings.rank == (predictor ? predictor->up.num_rows : 0);
}

// Null: absent, or of another type.
template <typename Value>
const gguf::ElementsOf<Value>* FindArray(const pack::PreparedParts& parts,
                                         const char* key) {
  const auto found = std::ranges::find(parts.keys, key, &gguf::KeyValue::key);
  return found == parts.keys.end() ? nullptr : found->Elements<Value>();
}

// Whether it is there and a permutation of the neurons.
bool ReadOrder(const pack::PreparedParts& parts, size_t num_neurons,
               std::vector<uint32_t>& out) {
  const auto* order = FindArray<int64_t>(parts, kOrder);
  if (order == nullptr || order->size() != num_neurons) return false;
  if (FindMisplaced(num_neurons, num_neurons,
                    [&](size_t place) { return (*order)[place]; })) {
    return false;
  }
  for (const int64_t neuron : *order) {
    out.push_back(static_cast<uint32_t>(neuron));
  }
  return true;
}

// Whether they are there and can be what was written.
Result<bool> ReadFindings(const gguf::File& file,
                          const pack::PreparedParts& parts,
                          LayerFindings& out) {
  TC_ASSIGN_OR_RETURN(auto reason, file.String(kReason));
  const auto* figures = FindArray<double>(parts, kFigures);
  const auto* ahead = FindArray<double>(parts, kRecallAhead);
  if (!reason || figures == nullptr || figures->size() != kNumFigures ||
      ahead == nullptr || ahead->size() > kMaxAhead + 1) {
    return false;
  }
  out.reason = *std::move(reason);
  out.recall_ahead = ahead->ToVector();
  return AreFinite(out.recall_ahead) && ReadFigures(figures->ToVector(), out);
}

}  // namespace

Status WriteLayerFile(const LayerFile& layer, size_t layer_idx,
                      size_t lookahead, const model::Config& config,
                      const std::string& path) {
  const size_t num_layers = config.num_layers;
  pack::PreparedParts parts;
  parts.lookahead = lookahead;
  if (layer.trained) {
    parts.predictors.resize(num_layers);
    parts.predictors[layer_idx] = layer.trained;
  }
  if (layer.free) {
    parts.training_free.resize(num_layers);
    parts.training_free[layer_idx] = layer.free;
  }
  parts.keys.push_back(Doubles(kFigures, FiguresOf(layer.findings)));
  parts.keys.push_back(Doubles(kRecallAhead, layer.findings.recall_ahead));
  parts.keys.push_back(NeuronIds(kOrder, layer.order));
  parts.keys.push_back({.key = kReason,
                        .type = gguf::ValueType::kString,
                        .value = layer.findings.reason});
  parts.keys.push_back({.key = kLayer,
                        .type = gguf::ValueType::kU32,
                        .value = static_cast<int64_t>(layer_idx)});
  return pack::WriteParts(parts, config, path);
}

Result<LayerFile> ReadLayerFile(const gguf::File& file, size_t layer_idx,
                                const model::Config& config) {
  TC_ASSIGN_OR_RETURN(pack::PreparedParts parts, pack::ReadParts(file, config));
  TC_ASSIGN_OR_RETURN(const auto stored_idx, file.Int(kLayer));
  LayerFile out;
  if (!parts.predictors.empty()) {
    out.trained = std::move(parts.predictors[layer_idx]);
  }
  if (!parts.training_free.empty()) {
    out.free = std::move(parts.training_free[layer_idx]);
  }
  TC_ASSIGN_OR_RETURN(const bool has_findings,
                      ReadFindings(file, parts, out.findings));
  const size_t num_neurons = model::NeuronsPerLayer(config);
  if (!stored_idx || !std::cmp_equal(*stored_idx, layer_idx) || !has_findings ||
      !ReadOrder(parts, num_neurons, out.order) ||
      !IsOf(out.findings.trained, out.trained) ||
      !IsOf(out.findings.free, out.free)) {
    return Fail(ErrorCode::kCorrupt,
                "{}: is not what was kept of layer {}: it is of another layer, "
                "or damaged",
                file.path(), layer_idx);
  }
  return out;
}

Result<LayerFile> ReadLayerFile(const std::string& path, size_t layer_idx,
                                const model::Config& config) {
  TC_ASSIGN_OR_RETURN(const auto file, gguf::File::Open(path));
  return ReadLayerFile(*file, layer_idx, config);
}

}  // namespace thermocline::training
