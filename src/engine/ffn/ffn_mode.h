// Which neurons of an FFN are computed: the modes of docs/cli.md.
#ifndef THERMOCLINE_ENGINE_FFN_FFN_MODE_H_
#define THERMOCLINE_ENGINE_FFN_FFN_MODE_H_

#include <optional>
#include <string_view>

namespace thermocline::engine {

enum class FfnMode {
  // fast if the file brings predictors; exact if its neurons lie as records and
  // its activation is of the ReLU family; else dense.
  kAuto,
  kDense,      // all neurons
  kExact,      // all gates, then the neurons that these let through
  kFast,       // likewise, of the candidates of a predictor
  kThreshold,  // all gates, then the neurons that these open far enough
};

// Values of --ffn: "auto", "dense", "exact", "fast", "threshold".
inline constexpr FfnMode kFfnModes[] = {FfnMode::kAuto, FfnMode::kDense,
                                        FfnMode::kExact, FfnMode::kFast,
                                        FfnMode::kThreshold};
std::string_view NameOf(FfnMode mode);
std::optional<FfnMode> ParseFfnMode(std::string_view name);

// Whose candidates kFast takes.
enum class PredictorChoice {
  kAuto,          // the file's: trained, else training-free
  kTrained,       // the file's low-rank matrices
  kTrainingFree,  // the file's training-free one, or signs of the gates as they
                  // are
  kNone,          // nobody's: exact
};

// "auto", "trained", "training-free" ("free" and "signs" are read too), "none".
inline constexpr PredictorChoice kPredictorChoices[] = {
    PredictorChoice::kAuto, PredictorChoice::kTrained,
    PredictorChoice::kTrainingFree, PredictorChoice::kNone};
std::string_view NameOf(PredictorChoice choice);
std::optional<PredictorChoice> ParsePredictorChoice(std::string_view name);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_FFN_MODE_H_
