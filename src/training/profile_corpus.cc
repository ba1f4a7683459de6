#include "training/profile_corpus.h"

#include <string_view>
#include <utility>

#include "engine/ffn/ffn_choice.h"
#include "training/low_rank.h"

namespace thermocline::training {
namespace {

// What someone can do with a model whose neurons nearly all fire.
std::string_view WayOut(const model::FfnConfig& ffn) {
  if (engine::HasZeros(ffn.activation)) return "run it with --ffn dense";
  return "'thermocline prepare' with --density or --ppl-cost calibrates "
         "thresholds that bring neurons to rest, at a cost in perplexity that "
         "it states";
}

}  // namespace

engine::FfnMode ProfileMode(const model::Config& config) {
  return config.thresholds.empty() ? engine::FfnMode::kDense
                                   : engine::FfnMode::kThreshold;
}

Status CheckSparsity(const model::Model& model, double density,
                     uint64_t num_tokens) {
  if (density <= kMaxProfileDensity) return {};
  const model::FfnConfig& ffn = model.config().ffn;
  return Fail(ErrorCode::kUnsupported,
              "{}: has no sparsity: {:.1f} % of the neurons{} fire on average "
              "over {} tokens, {} its activation, {}, {}; {}",
              model.file().path(), 100.0 * density,
              ffn.num_experts > 0 ? " of a token's experts" : "", num_tokens,
              engine::HasZeros(ffn.activation) ? "although" : "since",
              NameOf(ffn.activation),
              engine::HasZeros(ffn.activation) ? "has zeros" : "is never 0",
              WayOut(ffn));
}

Result<neuron::Profile> CountFired(
    const std::shared_ptr<const model::Model>& model, const Corpus& corpus,
    engine::SessionOptions options, const ProgressFn& progress,
    const std::function<Status(const neuron::Profile& profile)>& check) {
  const model::Config& config = model->config();
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
