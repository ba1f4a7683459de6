#include "eval/perplexity.h"

#include <array>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "eval/log_softmax.h"
#include "eval/statistics.h"
#include "neuron/json_values.h"

namespace thermocline::eval {
namespace {

Perplexity Summarise(const Moments& nll, int64_t context, int64_t num_chunks) {
  const MeanWithError value = ExpOf(nll);
  return {.value = value.value,
          .error = value.error,
          .mean_nll = nll.mean(),
          .context = context,
          .num_chunks = num_chunks,
          .num_predictions = nll.count()};
}

}  // namespace

Result<Perplexity> MeasurePerplexity(engine::Session& session,
                                     std::span<const text::TokenId> tokens,
                                     const Chunks& chunks,
                                     const ProgressFn& progress) {
  Moments nll;
  const std::array<engine::Session*, 1> sessions = {&session};
  TC_RETURN_IF_ERROR(ForEachPrediction(
      sessions, tokens, chunks, progress,
      [&](auto logits, text::TokenId target) -> Status {
        TC_ASSIGN_OR_RETURN(
            const double log_probability,
            LogProbability(logits[0], static_cast<size_t>(target)));
        nll.Add(-log_probability);
        return {};
      }));
  return Summarise(nll, chunks.size, chunks.CountIn(tokens));
}

std::string FormatPerplexity(const Perplexity& perplexity) {
  return fmt::format(
      "perplexity: {:.4f} +/- {} ({} of {}, {}, mean "
      "nll {:.6f})",
      perplexity.value, FormatError(perplexity.error, "{:.4f}"),
      Plural(perplexity.num_chunks, "chunk"), perplexity.context,
      Plural(perplexity.num_predictions, "prediction"), perplexity.mean_nll);
}

std::string FormatPerplexityJson(const Perplexity& perplexity) {
  const nlohmann::ordered_json json = {
      {"perplexity", perplexity.value},
      {"error", OrNull(perplexity.error)},
      {"mean_nll", perplexity.mean_nll},
      {"context", perplexity.context},
      {"chunks", perplexity.num_chunks},
      {"predictions", perplexity.num_predictions}};
  return json.dump();
}

}  // namespace thermocline::eval
