// Models that nobody has the weights of: a shape, and how its neurons fire.
#ifndef THERMOCLINE_CLI_LIKE_MODEL_H_
#define THERMOCLINE_CLI_LIKE_MODEL_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "model/config.h"
#include "model/model.h"
#include "tensor/dtype.h"

namespace thermocline::cli {

struct LikeFlags {
  std::optional<std::string> shape;
  DType dtype = DType::kQ4_0;
  float density = 0.1f;
  float skew = 0.26f;
  std::optional<double> expert_skew;
  std::optional<int64_t> num_layers;
  int64_t seed = 1;
};

// --like, and --as, --density, --skew, --expert-skew, --layers, --seed, which
// go with it alone.
void AddLikeFlags(CLI::App& app, LikeFlags& flags);

// What of a model of `synth` with these flags a plan looks at: its sizes,
// predictors and profile. Its weights are not there. Errors of
// synth::PlanSynth and synth::OutlineOf, and those of model::Model::FromFile,
// as far as overrides and split file are wrong. Requires a shape.
Result<std::shared_ptr<const model::Model>> ModelLike(
    const LikeFlags& flags, const model::ConfigOverrides& overrides,
    const std::optional<std::string>& split_path);

// "like llama-7b, 32 layers, Q4_0, density 0.1, skew 0.26, locality 0.6, ...".
std::string DescribeLike(const model::Model& model);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_LIKE_MODEL_H_
