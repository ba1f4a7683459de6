#include "model/predictor_weights.h"

#include <string>
#include <utility>
#include <vector>

#include "base/quote.h"
#include "model/prepared_names.h"

namespace thermocline::model {
namespace {

// Names behind "blk.N.".
struct Names {
  const char* up;
  const char* down;
};
Names NamesOf(PredictorKind kind) {
  if (kind == PredictorKind::kPowerInfer) return {"fc1", "fc2"};
  if (kind == PredictorKind::kThermocline) {
    return {prepared::kPredictorUp, prepared::kPredictorDown};
  }
  return {"ffn_pred_up", "ffn_pred_down"};
}

// KAIROX writes the ranks of all layers under one key, its forerunner
// SparkInfer under another.
Status CheckRank(const gguf::File& file, const Config& config, size_t layer_idx,
                 size_t rank) {
  if (config.predictor.kind == PredictorKind::kThermocline) return {};
  for (const std::string& key : {std::string("predictor.low_ranks"),
                                 config.architecture + ".pred_lora"}) {
    if (file.Find(key) == nullptr) continue;
    const auto* ranks = file.Elements<int64_t>(key);
    if (ranks == nullptr || ranks->size() != config.num_layers) {
      return Fail(ErrorCode::kCorrupt,
                  "{}: key \"{}\" must be an array of {} integers, one rank "
                  "per layer",
                  file.path(), key, config.num_layers);
    }
    const int64_t by_key = (*ranks)[layer_idx];
    if (std::cmp_equal(by_key, rank)) continue;
    return Fail(ErrorCode::kCorrupt,
                "{}: key \"{}\" says rank {} for layer {}, but the predictor's "
                "rank there is {} (a predictor of another model?)",
                file.path(), key, by_key, layer_idx, rank);
  }
  return {};
}

// The extents of the first matrix: R is free, D is the model's.
Result<size_t> ReadRank(const gguf::TensorInfo& up, const Config& config,
                        const FfnSpec& ffn, const gguf::File& file) {
  const size_t rank = up.shape.num_rows();
  if (up.shape.ne[0] != config.width) {
    return Fail(ErrorCode::kCorrupt,
                "{}: tensor {} has the shape {}; a predictor of this model "
                "reads {} values (a predictor of another model?)",
                file.path(), Quote(up.name), ToString(up.shape), config.width);
  }
  if (rank > ffn.width) {
    return Fail(ErrorCode::kCorrupt,
                "{}: tensor {} has the shape {}: a rank above the {} neurons "
                "that it predicts (a predictor of another model?)",
                file.path(), Quote(up.name), ToString(up.shape), ffn.width);
  }
  return rank;
}

// The second matrix reads what the first one writes, and has F rows.
Status CheckFits(const gguf::File& file, size_t num_neurons,
                 const gguf::TensorInfo& up, const std::string& down_name) {
  const gguf::TensorInfo* down = file.FindTensor(down_name);
  if (down == nullptr) return {};  // found missing when it is bound
  const uint64_t rank = up.shape.num_rows();
  if (down->shape.ne[0] == rank && down->shape.num_rows() == num_neurons) {
    return {};
  }
  return Fail(ErrorCode::kCorrupt,
              "{}: tensor {} has the shape {}; it must read the {} values of "
              "{} and predict {} neurons (a predictor of another model?)",
              file.path(), Quote(down_name), ToString(down->shape), rank,
              Quote(up.name), num_neurons);
}

}  // namespace

Result<PredictorWeights> BindPredictor(TensorBinder& binder,
                                       const Config& config, size_t layer_idx) {
  const PredictorKind kind = config.predictor.kind;
  const gguf::File& file = binder.file();
  if (kind == PredictorKind::kNone) {
    TC_RETURN_IF_ERROR(CheckRank(file, config, layer_idx, 0));
    return PredictorWeights();
  }
  const auto [up_name, down_name] = NamesOf(kind);
  const std::string up = fmt::format("blk.{}.{}", layer_idx, up_name);
  const std::string down = fmt::format("blk.{}.{}", layer_idx, down_name);
  const gguf::TensorInfo* info = file.FindTensor(up + ".weight");
  if (info == nullptr) {
    if (kind == PredictorKind::kPowerInfer) {
      return Fail(ErrorCode::kCorrupt,
                  "{}: tensor \"{}.weight\" is missing: a PowerInfer file has "
                  "a predictor in every layer",
                  file.path(), up);
    }
    TC_RETURN_IF_ERROR(CheckRank(file, config, layer_idx, 0));
    return PredictorWeights();
  }
  const FfnSpec& ffn = config.layers[layer_idx].ffn;
  const size_t num_neurons = NumNeurons(ffn);
  TC_ASSIGN_OR_RETURN(const size_t rank, ReadRank(*info, config, ffn, file));
  TC_RETURN_IF_ERROR(CheckRank(file, config, layer_idx, rank));
  TC_RETURN_IF_ERROR(CheckFits(file, num_neurons, *info, down + ".weight"));
  PredictorWeights weights;
  TC_ASSIGN_OR_RETURN(
      weights.up,
      binder.TakeMatrix(up + ".weight", rank, config.width, Need::kRequired));
  TC_ASSIGN_OR_RETURN(
      weights.down,
      binder.TakeMatrix(down + ".weight", num_neurons, rank, Need::kRequired));
  const Need bias =
      kind == PredictorKind::kPowerInfer ? Need::kForbidden : Need::kOptional;
  TC_ASSIGN_OR_RETURN(weights.up_bias,
                      binder.TakeVector(up + ".bias", rank, bias));
  TC_ASSIGN_OR_RETURN(weights.down_bias,
                      binder.TakeVector(down + ".bias", num_neurons, bias));
  return weights;
}

}  // namespace thermocline::model
