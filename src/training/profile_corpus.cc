#include "training/profile_corpus.h"

#include <string>
#include <utility>

#include "engine/ffn/ffn_choice.h"
#include "training/low_rank.h"

namespace thermocline::training {
namespace {

// Why nearly all neurons of a model fire, and what someone can do with it.
std::string WhyAndWayOut(const model::Config& config) {
  const model::FfnSpec& ffn = CommonFfn(config);
  if (HasZeros(ffn.activation)) {
    return fmt::format(
        "although its activation, {}, has zeros; run it with --ffn dense",
        NameOf(ffn.activation));
  }
  if (!config.thresholds.empty()) {
    return "with the thresholds in the file; 'thermocline prepare' with a "
           "lower --density or a higher --ppl-cost brings more of them to rest";
  }
  return fmt::format(
      "since its activation, {}, is never 0; 'thermocline prepare' with "
      "--density or --ppl-cost calibrates thresholds that bring neurons to "
      "rest, at a cost in perplexity that it states",
      NameOf(ffn.activation));
}

}  // namespace

engine::FfnMode ProfileMode(const model::Config& config) {
  return config.thresholds.empty() ? engine::FfnMode::kDense
                                   : engine::FfnMode::kThreshold;
}

Status CheckSparsity(const model::Model& model, double density,
                     uint64_t num_tokens) {
  if (density <= kMaxProfileDensity) return {};
  return Fail(
      ErrorCode::kUnsupported,
      "{}: has no sparsity: {:.1f} % of the neurons{} fire on average "
      "over {} tokens, {}",
      model.file().path(), 100.0 * density,
      CommonFfn(model.config()).num_experts > 0 ? " of a token's experts" : "",
      num_tokens, WhyAndWayOut(model.config()));
}

Result<neuron::Profile> CountFired(
    const std::shared_ptr<const model::Model>& model, const Corpus& corpus,
    engine::SessionOptions options, const ProgressFn& progress,
    const std::function<Status(const neuron::Profile& profile)>& check) {
  const model::Config& config = model->config();
  TC_RETURN_IF_ERROR(
      CheckEqualWidths(config, model->file().path() + ": a profile"));
  neuron::ProfileBuilder builder(
      static_cast<size_t>(config.num_layers),
      static_cast<size_t>(model::NeuronsPerLayer(config)));
  TC_RETURN_IF_ERROR(RunCorpus(
      model, corpus, std::move(options), "profile", progress,
      [&](size_t, const engine::FfnObservation& seen) {
        builder.Add(static_cast<size_t>(seen.layer_idx), seen.fired);
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
