#include "training/fit_plan.h"

#include <algorithm>
#include <cstdint>

#include "base/remedy.h"
#include "base/units.h"
#include "training/fit.h"
#include "training/layer_fit.h"

namespace thermocline::training {
namespace {

constexpr size_t kMinSamples = 1024;

// So many threads are planned for, whatever their number is: the same samples
// are to give the same predictors everywhere. A thread takes some 100 KiB.
constexpr int kPlannedThreads = 16;

// The largest that a layer's predictor may get.
size_t MaxRankOf(const model::Model& model) {
  const model::Config& config = model.config();
  const size_t width = config.width;
  size_t max_rank = 0;
  for (const model::LayerWeights& layer : model.weights().layers) {
    const auto max_bytes = static_cast<uint64_t>(
        kMaxBytesShare * static_cast<double>(FfnBytes(layer.ffn)));
    max_rank = std::max(max_rank, MaxRank(width, CommonFfn(config).width,
                                          SmallestType(width), max_bytes));
  }
  return max_rank;
}

// What is taken whatever the samples are.
Result<uint64_t> FixedBytes(const model::Model& model, const Corpus& corpus,
                            const FindOptions& options) {
  engine::SessionOptions session = options.session;
  session.context = static_cast<int64_t>(corpus.chunk_tokens());
  session.num_threads = kPlannedThreads;
  TC_ASSIGN_OR_RETURN(const engine::MemoryPlan need,
                      engine::PlanMemory(model.config(), session));
  // The session is gone when layers are fitted.
  return std::max(need.anonymous(), FitBytes(model.config(), MaxRankOf(model),
                                             options.num_layers_before() > 0)) +
         corpus.num_tokens() * sizeof(text::TokenId);
}

}  // namespace

uint64_t FitBytes(const model::Config& config, size_t max_rank,
                  bool looks_ahead) {
  const size_t width = config.width;
  const size_t num_neurons = NeuronsPerLayer(config);
  const model::FfnSpec& ffn = CommonFfn(config);
  const uint64_t rows = ffn.width * width;
  const uint64_t predictor = max_rank * (width + num_neurons);
  // First the gate as floats with its image, which of a mixture has one
  // expert's rows and those drawn from all; then the predictor with its
  // gradients and moments, beside the image.
  const uint64_t image = (ffn.num_experts > 0 ? 4 : 2) * rows + 3 * predictor;
  const uint64_t moments = (looks_ahead ? 6 : 2) * width * width;
  const uint64_t batch = 3 * 512 * (width + num_neurons);
  return sizeof(float) * (std::max(image, 7 * predictor) + moments + batch) +
         256 * kMiB;  // scores
}

Result<FitPlan> PlanFit(const model::Model& model, const Corpus& corpus,
                        const FindOptions& options) {
  const uint64_t allowed = options.max_memory_bytes > 0
                               ? options.max_memory_bytes
                               : model.file().num_file_bytes() / 4 + kGiB;
  TC_ASSIGN_OR_RETURN(const uint64_t used, FixedBytes(model, corpus, options));
  const uint64_t left = allowed > used ? allowed - used : 0;
  const model::Config& config = model.config();
  const uint64_t sample_bytes = SampleBytes(config.width, NeuronsOf(config));
  const size_t num_layers = config.num_layers;
  const size_t num_before = options.num_layers_before();
  const size_t num_least = std::min(num_before + 1, num_layers);
  const size_t wanted = std::min(options.max_samples, corpus.num_tokens());
  const size_t num_samples = std::min(wanted, left / num_least / sample_bytes);
  if (num_samples < std::min(wanted, kMinSamples)) {
    const uint64_t least = num_least * kMinSamples * sample_bytes;
    return Fail(ErrorCode::kResourceExhausted, Advice{Remedy::kSmallerFit},
                "{}: predictors need {} of memory, of which {} are the least "
                "samples of {}, and {} are allowed, a fourth of the model and "
                "1 GiB",
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
