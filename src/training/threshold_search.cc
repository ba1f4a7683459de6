#include "training/threshold_search.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/check.h"
#include "base/remedy.h"
#include "base/units.h"

namespace thermocline::training {
namespace {

constexpr int kNumHalvings = 7;
// Half of a chunk is context, the rest is predicted.
constexpr size_t kMinChunkTokens = 4;
// Positions whose logits are held at once: a vocabulary's are large.
constexpr size_t kMaxLogits = 64;

// -log of the softmax at `target`.
double NegativeLogLikelihood(std::span<const float> logits, size_t target) {
  const double largest = double{*std::ranges::max_element(logits)};
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit} - largest);
  return std::log(sum) + largest - double{logits[target]};
}

// Adds what a chunk's second half costs.
Status AddChunk(engine::Session& session, std::span<const text::TokenId> chunk,
                double& sum, size_t& count, std::vector<float>& logits) {
  const size_t first = chunk.size() / 2;
  const size_t vocab_size = session.model().config().vocab_size;
  session.Truncate(0);
  TC_RETURN_IF_ERROR(
      session.Prompt(chunk.first(first), engine::LogitsOf::kNone, {}));
  for (size_t begin = first; begin + 1 < chunk.size(); begin += kMaxLogits) {
    const size_t num_asked = std::min(kMaxLogits, chunk.size() - 1 - begin);
    logits.resize(num_asked * vocab_size);
    TC_RETURN_IF_ERROR(session.Prompt(chunk.subspan(begin, num_asked),
                                      engine::LogitsOf::kAll, logits));
    for (size_t i = 0; i < num_asked; ++i) {
      sum += NegativeLogLikelihood(
          std::span(logits).subspan(i * vocab_size, vocab_size),
          static_cast<size_t>(chunk[begin + i + 1]));
    }
    count += num_asked;
  }
  return {};
}

}  // namespace

Result<double> MeasurePerplexity(
    const std::shared_ptr<const model::Model>& model, const Corpus& corpus,
    size_t max_chunks, const engine::SessionOptions& options,
    const std::vector<float>& thresholds) {
  if (corpus.chunk_tokens() < kMinChunkTokens) {
    return Fail(ErrorCode::kInvalidArgument,
                Advice{Remedy::kContext, kMinChunkTokens},
                "chunks of {} are too short to measure a perplexity in",
                Plural(corpus.chunk_tokens(), "token"));
  }
  std::shared_ptr<const model::Model> measured = model;
  engine::SessionOptions session_options = options;
  session_options.context = static_cast<int64_t>(corpus.chunk_tokens());
  session_options.progress = {};
  session_options.observer = {};
  session_options.ffn = engine::FfnMode::kDense;
  if (!thresholds.empty()) {
    session_options.ffn = engine::FfnMode::kThreshold;
    measured = model->WithThresholds(thresholds);
  }
  TC_ASSIGN_OR_RETURN(const auto session,
                      engine::Session::Create(measured, session_options));
  double sum = 0;
  size_t count = 0;
  std::vector<float> logits;
  size_t num_chunks = 0;
  for (size_t i = 0; i < corpus.num_chunks() && num_chunks < max_chunks; ++i) {
    if (!Corpus::IsHeldOut(i)) continue;
    ++num_chunks;
    TC_RETURN_IF_ERROR(AddChunk(*session, corpus.chunk(i), sum, count, logits));
  }
  TC_CHECK(count > 0);
  return std::exp(sum / static_cast<double>(count));
}

Result<DensityChoice> FindDensity(
    double max_cost, double dense_perplexity,
    const std::function<Result<double>(double density)>& perplexity_at) {
  DensityChoice choice = {.density = 1.0,
                          .perplexity = dense_perplexity,
                          .dense_perplexity = dense_perplexity};
  double too_low = 0.0;
  for (int i = 0; i < kNumHalvings; ++i) {
    const double density = (too_low + choice.density) / 2;
    TC_ASSIGN_OR_RETURN(const double perplexity, perplexity_at(density));
    if (perplexity <= (1.0 + max_cost) * dense_perplexity) {
      choice.density = density;
      choice.perplexity = perplexity;
    } else {
      too_low = density;
    }
  }
  return choice;
}

}  // namespace thermocline::training
