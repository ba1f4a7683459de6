#include "engine/ffn/ffn_choice.h"

#include <optional>

#include "base/remedy.h"

namespace thermocline::engine {
namespace {

// An activation of some layer that has zeros, or of one that has none; none:
// there is no such layer.
std::optional<Activation> FindActivation(const model::Config& config,
                                         bool has_zeros) {
  for (const model::LayerSpec& layer : config.layers) {
    if (HasZeros(layer.ffn.activation) == has_zeros) {
      return layer.ffn.activation;
    }
  }
  return std::nullopt;
}

// kAuto made definite.
FfnMode ModeFor(const model::Config& config, bool has_predictors,
                PredictorChoice predictor) {
  if (predictor == PredictorChoice::kNone) return FfnMode::kExact;
  if (has_predictors || predictor != PredictorChoice::kAuto) {
    return FfnMode::kFast;
  }
  return !config.records.empty() && !FindActivation(config, false)
             ? FfnMode::kExact
             : FfnMode::kDense;
}

Status CheckExact(const model::Config& config, PredictorChoice predictor) {
  const std::optional<Activation> smooth = FindActivation(config, false);
  if (!smooth) return {};
  return Fail(ErrorCode::kInvalidArgument, Advice{Remedy::kDenseOrThreshold},
              "{}: {} lets every neuron through, so none can be left out",
              predictor == PredictorChoice::kNone ? "FFNs without a predictor"
                                                  : "exact FFNs",
              NameOf(*smooth));
}

Status CheckThreshold(const model::Config& config) {
  const std::optional<Activation> with_zeros = FindActivation(config, true);
  if (with_zeros) {
    return Fail(ErrorCode::kInvalidArgument, Advice{Remedy::kExact},
                "FFNs with thresholds: {} closes neurons by itself, and "
                "thresholds are for {}",
                NameOf(*with_zeros), ListActivations(false));
  }
  if (!config.thresholds.empty()) return {};
  return Fail(ErrorCode::kInvalidArgument, Advice{Remedy::kFindThresholds},
              "FFNs with thresholds: the file has no thresholds");
}

Status CheckFast(const model::Config& config, PredictorChoice predictor) {
  const bool has_trained = config.predictor.is_there();
  const bool is_there =
      (predictor != PredictorChoice::kTrainingFree && has_trained) ||
      (predictor != PredictorChoice::kTrained && config.has_training_free);
  const std::optional<Activation> smooth = FindActivation(config, false);
  if (!is_there && smooth) {
    return Fail(
        ErrorCode::kInvalidArgument, Advice{Remedy::kDenseOrThreshold},
        "fast FFNs: the model brings no predictors of this kind, and {} lets "
        "every neuron through, so that signs cannot tell which to leave out",
        NameOf(*smooth));
  }
  if (predictor == PredictorChoice::kTrained && !has_trained) {
    return Fail(ErrorCode::kInvalidArgument, Advice{Remedy::kTrainPredictor},
                "trained predictors: the model brings none of which neurons "
                "fire");
  }
  if (is_there || predictor == PredictorChoice::kTrainingFree) return {};
  return Fail(ErrorCode::kInvalidArgument,
              Advice{Remedy::kTrainingFreePredictor},
              "fast FFNs: the model brings no predictors of which neurons "
              "fire, as PowerInfer's, KAIROX's and prepared files do");
}

}  // namespace

Result<FfnChoice> ChooseFfn(const model::Config& config, FfnMode mode,
                            PredictorChoice predictor) {
  const bool has_training_free = config.has_training_free;
  const bool has_trained = config.predictor.is_there();
  FfnChoice choice;
  choice.mode =
      mode == FfnMode::kAuto
          ? ModeFor(config, has_trained || has_training_free, predictor)
          : mode;
  if (choice.mode != FfnMode::kFast && predictor != PredictorChoice::kAuto &&
      predictor != PredictorChoice::kNone) {
    return Fail(ErrorCode::kInvalidArgument, Advice{Remedy::kFast},
                "predictor {}: FFNs in mode {} ask none", NameOf(predictor),
                NameOf(choice.mode));
  }
  if (choice.mode == FfnMode::kFast && predictor == PredictorChoice::kNone) {
    choice.mode = FfnMode::kExact;
  }
  if (choice.mode == FfnMode::kExact) {
    TC_RETURN_IF_ERROR(CheckExact(config, predictor));
  } else if (choice.mode == FfnMode::kThreshold) {
    TC_RETURN_IF_ERROR(CheckThreshold(config));
  } else if (choice.mode == FfnMode::kFast) {
    TC_RETURN_IF_ERROR(CheckFast(config, predictor));
    const bool is_free = predictor == PredictorChoice::kTrainingFree ||
                         (predictor == PredictorChoice::kAuto && !has_trained);
    choice.predictor =
        is_free ? PredictorChoice::kTrainingFree : PredictorChoice::kTrained;
    choice.own_signs = is_free && !has_training_free;
  }
  return choice;
}

}  // namespace thermocline::engine
