#include "cli/like_model.h"

#include <algorithm>
#include <utility>

#include "cli/flags.h"
#include "cli/parse_text.h"
#include "model/prepared_names.h"
#include "synth/activity.h"
#include "synth/outline.h"
#include "synth/shape.h"
#include "synth/weights.h"

namespace thermocline::cli {
namespace {

// What `synth` would take unless density and skew allow no such: plans do not
// look at it.
double LocalityFor(const synth::SynthOptions& options) {
  const synth::SynthShape* shape = synth::FindSynthShape(options.like);
  if (shape == nullptr) return options.locality;
  const auto shares =
      synth::SolveShares(shape->ffn_width, options.density, options.skew);
  if (!shares) return options.locality;
  const synth::LocalityRange range = synth::PossibleLocality(*shares);
  return std::clamp(options.locality, range.low, range.high);
}

}  // namespace

void AddLikeFlags(CLI::App& app, LikeFlags& flags) {
  CLI::Option* like =
      AddParsed(app, "--like", "SHAPE",
                "Instead of a model: a shape of which no weights are needed: " +
                    synth::ListSynthShapes(),
                [&flags](const std::string& name) -> Status {
                  flags.shape = name;
                  return {};
                });
  AddDType(app, "--as", flags.dtype,
           {DType::kF32, DType::kF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_K,
            DType::kQ6_K},
           "With --like: type of the matrices: f32, f16, q8_0, q4_0, q4_k, "
           "q6_k (default q4_0)")
      ->needs(like);
  AddFloat(app, "--density", flags.density, 0.0, 1.0,
           "With --like: share of the neurons that fire for a token (default "
           "0.1)")
      ->needs(like);
  AddFloat(app, "--skew", flags.skew, 0.0, 1.0,
           "With --like: share of the neurons that makes 80 % of all "
           "activations (default 0.26)")
      ->needs(like);
  AddParsed(app, "--expert-skew", "X",
            "With --like, of a mixture: share of the experts that makes 80 % "
            "of all choices (default: all are as busy)",
            [&flags](const std::string& text) -> Status {
              TC_ASSIGN_OR_RETURN(flags.expert_skew,
                                  ParseFloat(text, 0.0, 1.0));
              return {};
            })
      ->needs(like);
  AddInt(app, "--layers", flags.num_layers, 1, 1024,
         "With --like: fewer layers than the shape has")
      ->needs(like);
  AddInt(app, "--seed", flags.seed, 0, INT64_MAX,
         "With --like: which neurons are the busy ones, as of synth (default "
         "1)")
      ->needs(like);
}

Result<std::shared_ptr<const model::Model>> ModelLike(
    const LikeFlags& flags, const model::ConfigOverrides& overrides,
    const std::optional<std::string>& split_path) {
  synth::SynthOptions options = {.like = *flags.shape,
                                 .dtype = flags.dtype,
                                 .density = DecimalNear(flags.density),
                                 .skew = DecimalNear(flags.skew),
                                 .expert_skew = flags.expert_skew,
                                 .seed = static_cast<uint64_t>(flags.seed)};
  if (flags.num_layers) {
    options.num_layers = static_cast<uint64_t>(*flags.num_layers);
  }
  options.locality = LocalityFor(options);
  TC_ASSIGN_OR_RETURN(synth::SynthPlan plan, synth::PlanSynth(options));
  const synth::SynthWeights weights(std::move(plan));
  TC_ASSIGN_OR_RETURN(auto file, synth::OutlineOf(weights));
  return model::Model::FromFile(
      std::move(file), {.overrides = overrides, .split_path = split_path});
}

std::string DescribeLike(const model::Model& model) {
  return model.file()
      .String(model::prepared::kSynthetic)
      .value_or(std::nullopt)
      .value_or(model.file().path());
}

}  // namespace thermocline::cli
