#include "training/profile_corpus.h"

#include <string>
#include <utility>

#include "base/remedy.h"
#include "engine/ffn/ffn_choice.h"
#include "training/low_rank.h"

namespace thermocline::training {
namespace {

struct Cause {
  std::string why;
  Remedy remedy;
};

// Why nearly all neurons of a model fire, and what someone can do with it.
Cause WhyAllFire(const model::Config& config) {
  const model::FfnSpec& ffn = CommonFfn(config);
  if (HasZeros(ffn.activation)) {
    return {fmt::format("although its activation, {}, has zeros",
                        NameOf(ffn.activation)),
            Remedy::kDense};
  }
  if (!config.thresholds.empty()) {
    return {"with the thresholds in the file", Remedy::kMoreRest};
  }
  return {fmt::format("since its activation, {}, is never 0",
                      NameOf(ffn.activation)),
          Remedy::kCalibrateForRest};
}

}  // namespace

engine::FfnMode ProfileMode(const model::Config& config) {
  return config.thresholds.empty() ? engine::FfnMode::kDense
                                   : engine::FfnMode::kThreshold;
}

Status CheckSparsity(const model::Model& model, double density,
                     uint64_t num_tokens) {
  if (density <= kMaxProfileDensity) return {};
  const Cause cause = WhyAllFire(model.config());
  return Fail(
      ErrorCode::kUnsupported, Advice{cause.remedy},
      "{}: has no sparsity: {:.1f} % of the neurons{} fire on average "
      "over {} tokens, {}",
      model.file().path(), 100.0 * density,
      CommonFfn(model.config()).num_experts > 0 ? " of a token's experts" : "",
      num_tokens, cause.why);
}

Result<neuron::Profile> CountFired(
    const std::shared_ptr<const model::Model>& model, const Corpus& corpus,
    engine::SessionOptions options, const ProgressFn& progress,
    const std::function<Status(const neuron::Profile& profile)>& check) {
  const model::Config& config = model->config();
  TC_RETURN_IF_ERROR(
      CheckEqualWidths(config, model->file().path() + ": a profile"));
  neuron::ProfileBuilder builder(config.num_layers,
                                 model::NeuronsPerLayer(config));
  TC_RETURN_IF_ERROR(RunCorpus(
      model, corpus, std::move(options), "profile", progress,
      [&](size_t, const engine::FfnObservation& seen) {
        builder.Add(seen.layer_idx, seen.fired);
      },
      [&](size_t chunk_idx) -> Status {
        builder.BeginSequence();
        return chunk_idx == 0 && check ? check(builder.profile()) : Status();
      }));
  if (check) TC_RETURN_IF_ERROR(check(builder.profile()));
  return builder.profile();
}

Result<neuron::Profile> ProfileCorpus(
    const std::shared_ptr<const model::Model>& model, const Corpus& corpus,
    engine::SessionOptions options, const ProgressFn& progress) {
  const Neurons neurons = NeuronsOf(model->config());
  return CountFired(model, corpus, std::move(options), progress,
                    [&](const neuron::Profile& profile) {
                      return CheckSparsity(
                          *model, DensityOfUsed(profile.density(), neurons),
                          profile.num_tokens());
                    });
}

}  // namespace thermocline::training
