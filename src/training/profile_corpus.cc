#include "training/profile_corpus.h"

#include "tensor/op_kinds.h"

namespace thermocline::training {
namespace {

Status CheckSparsity(const neuron::Profile& profile,
                     const model::Model& model) {
  if (profile.density() <= kMaxProfileDensity) return {};
  const Activation activation = model.config().ffn.activation;
  const bool has_zeros =
      activation != Activation::kSilu && activation != Activation::kGelu;
  return Fail(ErrorCode::kUnsupported,
              "{}: has no sparsity to profile: of its neurons {:.1f} % fire on "
              "average over {} tokens, {}; 'thermocline prepare' can calibrate "
              "thresholds that bring neurons to rest, at a cost in perplexity "
              "that it states",
              model.file().path(), 100.0 * profile.density(),
              profile.num_tokens(),
              has_zeros ? fmt::format("although its activation, {}, has zeros",
                                      NameOf(activation))
                        : fmt::format("since its activation, {}, is never 0",
                                      NameOf(activation)));
}

}  // namespace

engine::FfnMode ProfileMode(const model::Config& config) {
  return config.thresholds.empty() ? engine::FfnMode::kDense
                                   : engine::FfnMode::kThreshold;
}

Result<neuron::Profile> ProfileCorpus(
    const std::shared_ptr<const model::Model>& model, const Corpus& corpus,
    engine::SessionOptions options, const ProgressFn& progress) {
  const model::Config& config = model->config();
  neuron::ProfileBuilder builder(
      static_cast<size_t>(config.num_layers),
      static_cast<size_t>(model::NeuronsPerLayer(config)));
  options.context = static_cast<int64_t>(corpus.chunk_tokens());
  options.progress = {};
  options.observer = [&](const engine::FfnObservation& seen) {
    builder.Add(static_cast<size_t>(seen.layer_idx), seen.fired);
  };
  TC_ASSIGN_OR_RETURN(const auto session,
                      engine::Session::Create(model, options));
  for (size_t i = 0; i < corpus.num_chunks(); ++i) {
    ReportProgress(progress, "profile", i * corpus.chunk_tokens(),
                   corpus.num_tokens());
    session->Truncate(0);
    builder.BeginSequence();
    const Status status =
        session->Decode(corpus.chunk(i), engine::LogitsOf::kNone, {});
    if (!status.has_value()) {
      return Annotate(fmt::format("chunk {}", i + 1), status.error());
    }
    if (i == 0) TC_RETURN_IF_ERROR(CheckSparsity(builder.profile(), *model));
  }
  TC_RETURN_IF_ERROR(CheckSparsity(builder.profile(), *model));
  ReportProgress(progress, "profile", corpus.num_tokens(), corpus.num_tokens());
  return builder.profile();
}

}  // namespace thermocline::training
