#include "eval/perplexity.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/check.h"

namespace thermocline::eval {
namespace {

// Positions whose logits are held at once: bounds memory for large
// vocabularies, and is enough rows for the head's matrix product.
constexpr int64_t kMaxLogitRows = 128;

struct NllSum {
  double sum = 0.0;
  double sum_of_squares = 0.0;
  int64_t count = 0;

  void Add(double nll) {
    sum += nll;
    sum_of_squares += nll * nll;
    ++count;
  }
};

std::optional<text::TokenId> BosThatIsAdded(const model::Model& model) {
  if (model.tokenizer() == nullptr) return std::nullopt;
  const text::Vocab& vocab = model.tokenizer()->vocab();
  return vocab.add_bos ? vocab.bos : std::nullopt;
}

Status CheckArguments(const engine::Session& session, size_t num_tokens,
                      int64_t context) {
  if (context < 4) {
    return Fail(ErrorCode::kInvalidArgument,
                "perplexity: chunks of {} tokens are too short, at least 4",
                context);
  }
  if (context > session.context()) {
    return Fail(ErrorCode::kInvalidArgument,
                "perplexity: chunks of {} tokens do not fit the session's "
                "context of {}",
                context, session.context());
  }
  if (static_cast<int64_t>(num_tokens) / 2 < context) {
    return Fail(ErrorCode::kInvalidArgument,
                "perplexity: the text has {} tokens, but at least two chunks "
                "of {} are needed; use a longer text or a smaller -c",
                num_tokens, context);
  }
  return {};
}

// Adds the predictions of one chunk. `logits` is scratch for kMaxLogitRows.
Status AddChunk(engine::Session& session, std::span<const text::TokenId> chunk,
                std::span<const text::TokenId> targets, std::span<float> logits,
                NllSum& nll) {
  const size_t vocab_size =
      static_cast<size_t>(session.model().config().vocab_size);
  session.Truncate(0);
  const size_t first = chunk.size() / 2;
  TC_RETURN_IF_ERROR(
      session.Decode(chunk.first(first), engine::LogitsOf::kNone, {}));
  // The last token has no successor in the chunk: nothing to predict.
  for (size_t begin = first; begin + 1 < chunk.size();) {
    const size_t num_rows =
        std::min<size_t>(kMaxLogitRows, chunk.size() - 1 - begin);
    TC_RETURN_IF_ERROR(session.Decode(chunk.subspan(begin, num_rows),
                                      engine::LogitsOf::kAll,
                                      logits.first(num_rows * vocab_size)));
    for (size_t row = 0; row < num_rows; ++row) {
      nll.Add(
          NegativeLogLikelihood(logits.subspan(row * vocab_size, vocab_size),
                                static_cast<size_t>(targets[begin + row + 1])));
    }
    begin += num_rows;
  }
  return {};
}

Perplexity Summarise(const NllSum& nll, int64_t context, int64_t num_chunks) {
  const double count = static_cast<double>(nll.count);
  const double mean = nll.sum / count;
  const double variance = nll.sum_of_squares / count - mean * mean;
  const double value = std::exp(mean);
  // The error of the mean carries over to exp(mean) by its derivative.
  const double error = nll.count > 1 && variance > 0.0
                           ? value * std::sqrt(variance / (count - 1.0))
                           : 0.0;
  return {.value = value,
          .error = error,
          .mean_nll = mean,
          .context = context,
          .num_chunks = num_chunks,
          .num_predictions = nll.count};
}

}  // namespace

double NegativeLogLikelihood(std::span<const float> logits, size_t target) {
  TC_CHECK(target < logits.size());
  const float max = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const float logit : logits) {
    sum += static_cast<double>(std::exp(logit - max));
  }
  return std::log(sum) - static_cast<double>(logits[target] - max);
}

Result<Perplexity> MeasurePerplexity(engine::Session& session,
                                     std::span<const text::TokenId> tokens,
                                     int64_t context,
                                     const ProgressFn& progress) {
  TC_RETURN_IF_ERROR(CheckArguments(session, tokens.size(), context));
  const int64_t vocab_size = session.model().config().vocab_size;
  for (const text::TokenId token : tokens) {
    if (token < 0 || token >= vocab_size) {
      return Fail(ErrorCode::kInvalidArgument,
                  "perplexity: token id {} is outside the vocabulary of {}",
                  token, vocab_size);
    }
  }

  const std::optional<text::TokenId> bos = BosThatIsAdded(session.model());
  const int64_t num_chunks = static_cast<int64_t>(tokens.size()) / context;
  std::vector<float> logits(
      static_cast<size_t>(std::min(kMaxLogitRows, context) * vocab_size));
  std::vector<text::TokenId> chunk(static_cast<size_t>(context));
  NllSum nll;
  for (int64_t idx = 0; idx < num_chunks; ++idx) {
    ReportProgress(progress, "perplexity", static_cast<uint64_t>(idx),
                   static_cast<uint64_t>(num_chunks));
    const auto source = tokens.subspan(static_cast<size_t>(idx * context),
                                       static_cast<size_t>(context));
    std::copy(source.begin(), source.end(), chunk.begin());
    if (bos.has_value()) chunk.front() = *bos;
    TC_RETURN_IF_ERROR(AddChunk(session, chunk, source, logits, nll));
  }
  ReportProgress(progress, "perplexity", static_cast<uint64_t>(num_chunks),
                 static_cast<uint64_t>(num_chunks));
  session.Truncate(0);
  return Summarise(nll, context, num_chunks);
}

std::string FormatPerplexity(const Perplexity& perplexity) {
  return fmt::format(
      "perplexity: {:.4f} +/- {:.4f} ({} chunks of {}, {} predictions, mean "
      "nll {:.6f})",
      perplexity.value, perplexity.error, perplexity.num_chunks,
      perplexity.context, perplexity.num_predictions, perplexity.mean_nll);
}

std::string FormatPerplexityJson(const Perplexity& perplexity) {
  const nlohmann::ordered_json json = {
      {"perplexity", perplexity.value},
      {"error", perplexity.error},
      {"mean_nll", perplexity.mean_nll},
      {"context", perplexity.context},
      {"chunks", perplexity.num_chunks},
      {"predictions", perplexity.num_predictions}};
  return json.dump();
}

}  // namespace thermocline::eval
