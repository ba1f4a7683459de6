#include "training/fit_plan.h"

#include <algorithm>
#include <cstdint>

#include "base/units.h"
#include "training/fit.h"
#include "training/layer_fit.h"

namespace thermocline::training {
namespace {

constexpr size_t kMinSamples = 1024;

// Of one layer's fitting, beside its samples: the gate as floats and what is
// made of it, the predictor with its gradients and moments, scores.
uint64_t FitBytes(const model::Config& config, size_t max_rank) {
  const auto width = static_cast<uint64_t>(config.width);
  const auto num_neurons = static_cast<uint64_t>(NeuronsPerLayer(config));
  const auto ffn_width = static_cast<uint64_t>(config.ffn_width);
  return sizeof(float) * (5 * ffn_width * width + 6 * width * width +
                          7 * max_rank * (width + num_neurons) +
                          3 * 512 * (width + num_neurons)) +
         256 * kMiB;
}

// The largest that a layer's predictor may get.
size_t MaxRankOf(const model::Model& model) {
  const model::Config& config = model.config();
  const auto width = static_cast<size_t>(config.width);
  size_t max_rank = 0;
  for (const model::LayerWeights& layer : model.weights().layers) {
    max_rank = std::max(max_rank,
                        MaxRank(width, static_cast<size_t>(config.ffn_width),
                                SmallestType(width), FfnBytes(layer.ffn) / 10));
  }
  return max_rank;
}

// What is taken whatever the samples are.
Result<uint64_t> FixedBytes(const model::Model& model, const Corpus& corpus,
                            engine::SessionOptions session) {
  session.context = static_cast<int64_t>(corpus.chunk_tokens());
  TC_ASSIGN_OR_RETURN(const engine::MemoryNeed need,
                      engine::PlanMemory(model.config(), session));
  // The session is gone when layers are fitted.
  return std::max(need.total(), FitBytes(model.config(), MaxRankOf(model))) +
         corpus.num_tokens() * sizeof(text::TokenId);
}

}  // namespace

Result<FitPlan> PlanFit(const model::Model& model, const Corpus& corpus,
                        const FindOptions& options) {
  const uint64_t allowed = options.max_memory_bytes > 0
                               ? options.max_memory_bytes
                               : model.file().num_file_bytes() / 4 + kGiB;
  TC_ASSIGN_OR_RETURN(const uint64_t used,
                      FixedBytes(model, corpus, options.session));
  const uint64_t left = allowed > used ? allowed - used : 0;
  const model::Config& config = model.config();
  const uint64_t sample_bytes =
      SampleBytes(static_cast<size_t>(config.width), NeuronsOf(config));
  const auto num_layers = static_cast<size_t>(config.num_layers);
  const size_t num_before = options.num_layers_before();
  const size_t num_least = std::min(num_before + 1, num_layers);
  const size_t wanted = std::min(options.max_samples, corpus.num_tokens());
  const size_t num_samples =
      std::min(wanted, static_cast<size_t>(left / num_least / sample_bytes));
  if (num_samples < std::min(wanted, kMinSamples)) {
    const uint64_t least = num_least * kMinSamples * sample_bytes;
    return Fail(ErrorCode::kResourceExhausted,
                "{}: predictors need {} of memory, of which {} are the least "
                "samples of {}, and {} are allowed; without --report-lookahead "
                "or with a smaller -c it is less, and --no-predictor prepares "
                "it without them",
                model.file().path(), FormatBytes(used + least),
                FormatBytes(least),
                num_least == 1 ? "one layer"
                               : fmt::format("{} layers at once", num_least),
                FormatBytes(allowed));
  }
  const size_t max_layers =
      std::max<size_t>(num_before + 1, left / (num_samples * sample_bytes));
  return FitPlan{.num_samples = num_samples,
                 .groups = GroupLayers(num_layers, max_layers, num_before)};
}

}  // namespace thermocline::training
